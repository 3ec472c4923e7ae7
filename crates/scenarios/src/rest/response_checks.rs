//! Checks of a response, and captures from it.

use lucarne_load::http::Response;

use super::json_pointers::{JsonMatch, JsonPointers};
use super::options::{self, JsonType, Length};
use super::template::{Escaping, Scope, Template, Values};
use crate::interned::intern;

/// Compiled checks and captures of one request.
#[derive(Debug, Default)]
pub(super) struct ResponseChecks {
    pointers: JsonPointers,
    checks: Vec<CompiledCheck>,
    captures: Vec<Capture>,
}

#[derive(Debug)]
struct CompiledCheck {
    name: &'static str,
    subject: Subject,
    exists: Option<bool>,
    equals: Option<Template>,
    contains: Option<Template>,
    kind: Option<JsonType>,
    length: Option<Length>,
}

#[derive(Debug)]
struct Capture {
    name: &'static str,
    subject: Subject,
    slot: usize,
}

/// The checked part of a response.
#[derive(Debug)]
enum Subject {
    /// Index of the JSON pointer.
    Json(usize),
    Header(String),
    Body,
}

impl ResponseChecks {
    /// Compiles a plan's checks of the responses to `request`.
    pub(super) fn compile(
        request: &str,
        checks: &[options::CheckOptions],
        scope: &mut Scope,
    ) -> Result<Self, String> {
        let mut compiled = Self::default();
        for (index, check) in checks.iter().enumerate() {
            let check = compiled
                .check(request, check, scope)
                .map_err(|why| format!("checks[{index}]: {why}"))?;
            compiled.checks.push(check);
        }
        Ok(compiled)
    }

    /// Captures the value at `subject` (a JSON pointer, or `header:Name`) into `slot`.
    pub(super) fn capture(
        &mut self,
        request: &str,
        name: &str,
        subject: &str,
        slot: usize,
    ) -> Result<(), String> {
        let subject = match subject.split_once(':') {
            Some(("header", header)) => Subject::Header(header.trim().to_owned()),
            _ => Subject::Json(self.pointers.add(subject)?),
        };
        let name = intern(&format!("{request}: {name} is there"));
        self.captures.push(Capture {
            name,
            subject,
            slot,
        });
        Ok(())
    }

    fn check(
        &mut self,
        request: &str,
        check: &options::CheckOptions,
        scope: &mut Scope,
    ) -> Result<CompiledCheck, String> {
        let given = [check.json.is_some(), check.header.is_some(), check.body];
        if given.iter().filter(|given| **given).count() != 1 {
            return Err("names one place: `json: /pointer`, `header: name` or `body: true`".into());
        }
        let (subject, of) = match (&check.json, &check.header) {
            (Some(pointer), _) => (Subject::Json(self.pointers.add(pointer)?), pointer.clone()),
            (_, Some(header)) => (Subject::Header(header.clone()), header.clone()),
            _ => (Subject::Body, "body".to_owned()),
        };
        if check.kind.is_some() && check.json.is_none() {
            return Err("`type` is for places in JSON".into());
        }
        let tests = check.equals.is_some() || check.contains.is_some() || check.length.is_some();
        if check.exists == Some(false) && (tests || check.kind.is_some()) {
            return Err("`exists: false` allows no other condition".into());
        }
        let mut template = |text: &Option<String>| {
            let compiled = text
                .as_ref()
                .map(|text| Template::compile(text, Escaping::Plain, scope));
            compiled.transpose()
        };
        let (equals, contains) = (template(&check.equals)?, template(&check.contains)?);
        let name = match &check.name {
            Some(name) => name.clone(),
            None => format!("{request}: {of} {}", words(check)),
        };
        Ok(CompiledCheck {
            // Tags are separated by commas, and thresholds may contain names of checks.
            name: intern(&name.replace(',', " ")),
            subject,
            exists: check.exists,
            equals,
            contains,
            kind: check.kind,
            length: check.length,
        })
    }

    /// Returns whether there are no checks and no captures.
    pub(super) fn is_empty(&self) -> bool {
        self.checks.is_empty() && self.captures.is_empty()
    }

    /// Checks a response and stores captured values in `values`. Calls `tell` with the result of
    /// every check. Returns the first error that counts according to `tell`.
    pub(super) fn look(
        &self,
        response: &Response,
        values: &mut Values,
        mut tell: impl FnMut(&'static str, Result<(), String>) -> bool,
    ) -> Result<(), String> {
        let found = if self.pointers.is_empty() {
            Ok(Vec::new())
        } else {
            self.pointers.look(&response.body)
        };
        let mut first = Ok(());
        let mut heard = |name: &'static str, outcome: Result<(), String>| {
            let why = outcome.as_ref().err().map(|why| format!("{name}: {why}"));
            let counts = tell(name, outcome);
            if let (Some(why), true) = (why, counts && first.is_ok()) {
                first = Err(why);
            }
        };
        for check in &self.checks {
            let outcome = check.subject.of(response, &found);
            let outcome = outcome.and_then(|found| check.test(found.as_ref(), values));
            heard(check.name, outcome);
        }
        for capture in &self.captures {
            let outcome = match capture.subject.of(response, &found) {
                Ok(Some(found)) if !found.is_structure() => {
                    values.set(capture.slot, found.text);
                    Ok(())
                }
                Ok(Some(found)) => Err(format!("it is {}", of_kind(found.kind))),
                Ok(None) => Err("there is none".to_owned()),
                Err(why) => Err(why),
            };
            heard(capture.name, outcome);
        }
        first
    }
}

impl Subject {
    fn of(
        &self,
        response: &Response,
        found: &Result<Vec<Option<JsonMatch>>, String>,
    ) -> Result<Option<JsonMatch>, String> {
        let text = |text: &str| JsonMatch {
            kind: JsonType::String,
            length: text.chars().count() as u64,
            text: text.to_owned(),
        };
        match self {
            Subject::Json(index) => match found {
                Ok(found) => Ok(found.get(*index).cloned().flatten()),
                Err(why) => Err(why.clone()),
            },
            Subject::Header(name) => Ok(response.headers.get(name).map(text)),
            Subject::Body => Ok(Some(text(&String::from_utf8_lossy(&response.body)))),
        }
    }
}

impl CompiledCheck {
    fn test(&self, found: Option<&JsonMatch>, values: &mut Values) -> Result<(), String> {
        let found = match (found, self.exists) {
            (Some(_), Some(false)) => return Err("it is there".into()),
            (None, Some(false)) => return Ok(()),
            (None, _) => return Err("there is none".into()),
            (Some(found), _) => found,
        };
        if let Some(kind) = self.kind
            && kind != found.kind
        {
            return Err(format!("it is {}", of_kind(found.kind)));
        }
        if let Some(length) = self.length
            && !(length.least..=length.most).contains(&found.length)
        {
            return Err(format!("its length is {}", found.length));
        }
        let said = || {
            if found.is_structure() {
                of_kind(found.kind).to_owned()
            } else {
                format!("`{}`", found.text.chars().take(100).collect::<String>())
            }
        };
        if let Some(equals) = &self.equals {
            let wanted = equals.text(values);
            if found.is_structure() || wanted != found.text {
                return Err(format!("it is {}, not `{wanted}`", said()));
            }
        }
        if let Some(contains) = &self.contains {
            let wanted = contains.text(values);
            if !found.text.contains(&wanted) {
                return Err(format!("it is {}, without `{wanted}`", said()));
            }
        }
        Ok(())
    }
}

/// Describes a check, for its name.
fn words(check: &options::CheckOptions) -> String {
    let mut words = Vec::new();
    if let Some(kind) = check.kind {
        words.push(format!("is {}", of_kind(kind)));
    }
    if let Some(Length { least, most }) = check.length {
        words.push(match (least, most) {
            (least, most) if least == most => format!("has length {least}"),
            (least, u64::MAX) => format!("has length {least} or more"),
            (_, most) => format!("has length {most} or less"),
        });
    }
    if let Some(text) = &check.equals {
        words.push(format!("is {text}"));
    }
    if let Some(text) = &check.contains {
        words.push(format!("contains {text}"));
    }
    match (words.is_empty(), check.exists) {
        (true, Some(false)) => "is not there".to_owned(),
        (true, _) => "is there".to_owned(),
        (false, _) => words.join(" and "),
    }
}

fn of_kind(kind: JsonType) -> &'static str {
    match kind {
        JsonType::Object => "an object",
        JsonType::Array => "an array",
        JsonType::String => "a text",
        JsonType::Number => "a number",
        JsonType::Boolean => "true or false",
        JsonType::Null => "null",
    }
}
