//! Checks of a response, and captures from it.

use lucarne_load::http::Response;

use super::json_pointers::{DocumentError, JsonList, JsonMatch, JsonPointerError, JsonPointers};
use super::options::{self, CheckOptions, JsonType, Length, Place};
use super::own_metrics::{self, MetricError};
use super::template::{Escaping, Scope, Template, TemplateError, Values};
use crate::interned::intern;

/// Reasons why a check of a plan is invalid.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum CheckError {
    #[error("must name one place: `json: /pointer`, `header: name` or `body: true`")]
    Place,
    #[error("`type` is for places in JSON")]
    TypeOutsideJson,
    #[error("`exists: false` allows no other condition")]
    ConditionOnNothing,
    #[error(transparent)]
    Pointer(#[from] JsonPointerError),
    #[error(transparent)]
    Template(#[from] TemplateError),
}

/// A check in the list of a request is invalid.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("checks[{index}]: {source}")]
pub(super) struct ChecksError {
    index: usize,
    source: CheckError,
}

/// Reasons why a response does not pass a check, or lacks a value to capture.
#[derive(Debug, thiserror::Error)]
pub(super) enum CheckFailure {
    #[error(transparent)]
    Document(#[from] DocumentError),
    #[error("the value is missing")]
    Missing,
    #[error("expected no value, found one")]
    Present,
    #[error("expected {}, found {}", of_kind(*.expected), of_kind(*.found))]
    Kind { expected: JsonType, found: JsonType },
    #[error("expected length {}, found {found}", of_length(*.expected))]
    Length { expected: Length, found: u64 },
    #[error("cannot capture {}: expected a single value", of_kind(*.0))]
    Structure(JsonType),
    #[error("the value is {}, not `{expected}`", excerpt(.found))]
    NotEqual { found: JsonMatch, expected: String },
    #[error("the value is {}, without `{expected}`", excerpt(.found))]
    NotContained { found: JsonMatch, expected: String },
}

/// A check that a response does not pass.
#[derive(Debug, thiserror::Error)]
#[error("{name}: {source}")]
pub(super) struct FailedCheck {
    pub(super) name: &'static str,
    pub(super) source: CheckFailure,
}

/// Compiled checks and captures of one request.
#[derive(Debug, Default)]
pub(super) struct ResponseChecks {
    pointers: JsonPointers,
    checks: Vec<CompiledCheck>,
    captures: Vec<Capture>,
    metrics: Vec<OwnMetric>,
}

/// A counter or a rate of the plan.
#[derive(Debug)]
pub(super) struct OwnMetric {
    pub(super) name: &'static str,
    pub(super) is_rate: bool,
    /// Condition for a response; `None` accepts all responses.
    condition: Option<CompiledCheck>,
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
    optional: bool,
}

/// The checked part of a response.
#[derive(Debug)]
enum Subject {
    /// Index of the JSON pointer.
    Json(usize),
    Header(String),
    Body,
    /// A value that is picked at random from several.
    Picked(JsonList),
}

impl ResponseChecks {
    /// Compiles a plan's checks of the responses to `request`.
    pub(super) fn compile(
        request: &str,
        checks: &[options::CheckOptions],
        scope: &mut Scope,
    ) -> Result<Self, ChecksError> {
        let mut compiled = Self::default();
        for (index, check) in checks.iter().enumerate() {
            let check = compiled.check(request, check, scope);
            let check = check.map_err(|source| ChecksError { index, source })?;
            compiled.checks.push(check);
        }
        Ok(compiled)
    }

    /// Captures the value at `place` (a JSON pointer, or `header:Name`) into `slot`.
    pub(super) fn capture(
        &mut self,
        request: &str,
        name: &str,
        place: &Place,
        slot: usize,
    ) -> Result<(), JsonPointerError> {
        let subject = match place.place.split_once(':') {
            _ if place.pick.is_some() => Subject::Picked(JsonList::parse(&place.place)?),
            Some(("header", header)) => Subject::Header(header.trim().to_owned()),
            _ => Subject::Json(self.pointers.add(&place.place)?),
        };
        let name = intern(&format!("{request}: {name} is there"));
        self.captures.push(Capture {
            name,
            subject,
            slot,
            optional: place.optional,
        });
        Ok(())
    }

    /// Adds a counter or a rate of the responses that have a property. A counter without a property
    /// counts all responses.
    pub(super) fn metric(
        &mut self,
        request: &str,
        name: &str,
        is_rate: bool,
        check: &CheckOptions,
        scope: &mut Scope,
    ) -> Result<(), MetricError> {
        let name = own_metrics::name(name)?;
        let all = !is_rate && *check == CheckOptions::default();
        let condition = (!all).then(|| self.check(request, check, scope));
        self.metrics.push(OwnMetric {
            name,
            is_rate,
            condition: condition.transpose()?,
        });
        Ok(())
    }

    /// Returns the counters and rates, each with its kind.
    pub(super) fn metrics(&self) -> impl Iterator<Item = (&'static str, &'static str)> {
        let kind = |metric: &OwnMetric| if metric.is_rate { "rate" } else { "counter" };
        self.metrics
            .iter()
            .map(move |metric| (metric.name, kind(metric)))
    }

    fn check(
        &mut self,
        request: &str,
        check: &options::CheckOptions,
        scope: &mut Scope,
    ) -> Result<CompiledCheck, CheckError> {
        let given = [check.json.is_some(), check.header.is_some(), check.body];
        if given.iter().filter(|given| **given).count() != 1 {
            return Err(CheckError::Place);
        }
        let (subject, of) = match (&check.json, &check.header) {
            (Some(pointer), _) => (Subject::Json(self.pointers.add(pointer)?), pointer.clone()),
            (_, Some(header)) => (Subject::Header(header.clone()), header.clone()),
            _ => (Subject::Body, "body".to_owned()),
        };
        if check.kind.is_some() && check.json.is_none() {
            return Err(CheckError::TypeOutsideJson);
        }
        let tests = check.equals.is_some() || check.contains.is_some() || check.length.is_some();
        if check.exists == Some(false) && (tests || check.kind.is_some()) {
            return Err(CheckError::ConditionOnNothing);
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

    /// Returns the names of all checks, including those of captured values.
    pub(super) fn names(&self) -> impl Iterator<Item = &'static str> {
        let checks = self.checks.iter().map(|check| check.name);
        checks.chain(self.captures.iter().map(|capture| capture.name))
    }

    /// Returns whether there are no checks, captures and metrics.
    pub(super) fn is_empty(&self) -> bool {
        self.checks.is_empty() && self.captures.is_empty() && self.metrics.is_empty()
    }

    /// Returns whether a check or a capture needs the body.
    pub(super) fn read_body(&self) -> bool {
        let conditions = self.metrics.iter().filter_map(|it| it.condition.as_ref());
        let checks = self.checks.iter().chain(conditions);
        let captures = self.captures.iter().map(|it| &it.subject);
        let mut subjects = checks.map(|it| &it.subject).chain(captures);
        let body = |subject: &Subject| matches!(subject, Subject::Body | Subject::Picked(_));
        !self.pointers.is_empty() || subjects.any(body)
    }

    /// Calls `measure` with every counter and rate.
    pub(super) fn measure(
        &self,
        response: &Response,
        values: &mut Values,
        mut measure: impl FnMut(&OwnMetric, bool),
    ) {
        if self.metrics.is_empty() {
            return;
        }
        let found = self.found(response);
        for metric in &self.metrics {
            let condition = metric.condition.as_ref();
            let holds = condition.is_none_or(|it| it.of(response, &found, values).is_ok());
            measure(metric, holds);
        }
    }

    /// Returns the values at the JSON pointers.
    fn found(&self, response: &Response) -> Result<Vec<Option<JsonMatch>>, DocumentError> {
        if self.pointers.is_empty() {
            Ok(Vec::new())
        } else {
            self.pointers.look(&response.body)
        }
    }

    /// Checks a response and stores captured values in `values`. Calls `tell` with the result of
    /// every check. Returns the first error that counts according to `tell`.
    pub(super) fn look(
        &self,
        response: &Response,
        values: &mut Values,
        mut tell: impl FnMut(&'static str, Result<(), &CheckFailure>) -> bool,
    ) -> Result<(), FailedCheck> {
        let found = self.found(response);
        let mut first = Ok(());
        let mut heard = |name: &'static str, outcome: Result<(), CheckFailure>| {
            let counts = tell(name, outcome.as_ref().copied());
            if let (Err(source), true) = (outcome, counts && first.is_ok()) {
                first = Err(FailedCheck { name, source });
            }
        };
        for check in &self.checks {
            heard(check.name, check.of(response, &found, values));
        }
        for capture in &self.captures {
            let place = match &capture.subject {
                Subject::Picked(list) => picked(list, response, values),
                subject => subject.of(response, &found),
            };
            let outcome = match place {
                Ok(Some(found)) if !found.is_structure() => {
                    values.set(capture.slot, found.text);
                    Ok(())
                }
                Ok(Some(found)) => Err(CheckFailure::Structure(found.kind)),
                Ok(None) if capture.optional => continue,
                Ok(None) => Err(CheckFailure::Missing),
                Err(error) => Err(error),
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
        found: &Result<Vec<Option<JsonMatch>>, DocumentError>,
    ) -> Result<Option<JsonMatch>, CheckFailure> {
        match self {
            Subject::Json(index) => match found {
                Ok(found) => Ok(found.get(*index).cloned().flatten()),
                Err(error) => Err(error.clone().into()),
            },
            Subject::Header(name) => Ok(response.headers.get(name).map(text)),
            Subject::Body => Ok(Some(text(&String::from_utf8_lossy(&response.body)))),
            // A capture picks its value with the random numbers of the user.
            Subject::Picked(_) => Ok(None),
        }
    }
}

/// Picks one of the values of a list; `None` if the list is empty.
fn picked(
    list: &JsonList,
    response: &Response,
    values: &mut Values,
) -> Result<Option<JsonMatch>, CheckFailure> {
    let mut texts = list.texts(&response.body)?;
    let index = values.random().below(texts.len() as u64) as usize;
    Ok((!texts.is_empty()).then(|| text(&texts.swap_remove(index))))
}

fn text(text: &str) -> JsonMatch {
    JsonMatch {
        kind: JsonType::String,
        length: text.chars().count() as u64,
        text: text.to_owned(),
    }
}

impl CompiledCheck {
    /// Checks a response, in whose body the JSON pointers have `found` these values.
    fn of(
        &self,
        response: &Response,
        found: &Result<Vec<Option<JsonMatch>>, DocumentError>,
        values: &mut Values,
    ) -> Result<(), CheckFailure> {
        self.test(self.subject.of(response, found)?, values)
    }

    fn test(&self, found: Option<JsonMatch>, values: &mut Values) -> Result<(), CheckFailure> {
        let found = match (found, self.exists) {
            (Some(_), Some(false)) => return Err(CheckFailure::Present),
            (None, Some(false)) => return Ok(()),
            (None, _) => return Err(CheckFailure::Missing),
            (Some(found), _) => found,
        };
        if let Some(expected) = self.kind
            && expected != found.kind
        {
            let found = found.kind;
            return Err(CheckFailure::Kind { expected, found });
        }
        if let Some(expected) = self.length
            && !(expected.least..=expected.most).contains(&found.length)
        {
            let found = found.length;
            return Err(CheckFailure::Length { expected, found });
        }
        if let Some(equals) = &self.equals {
            let expected = equals.text(values);
            if found.is_structure() || expected != found.text {
                return Err(CheckFailure::NotEqual { found, expected });
            }
        }
        if let Some(contains) = &self.contains {
            let expected = contains.text(values);
            if !found.text.contains(&expected) {
                return Err(CheckFailure::NotContained { found, expected });
            }
        }
        Ok(())
    }
}

/// Describes a value, for a message.
fn excerpt(found: &JsonMatch) -> String {
    if found.is_structure() {
        of_kind(found.kind).to_owned()
    } else {
        format!("`{}`", found.text.chars().take(100).collect::<String>())
    }
}

/// Describes a check, for its name.
fn words(check: &options::CheckOptions) -> String {
    let mut words = Vec::new();
    if let Some(kind) = check.kind {
        words.push(format!("is {}", of_kind(kind)));
    }
    if let Some(length) = check.length {
        words.push(format!("has length {}", of_length(length)));
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

fn of_length(Length { least, most }: Length) -> String {
    match (least, most) {
        (least, most) if least == most => least.to_string(),
        (least, u64::MAX) => format!("{least} or more"),
        (_, most) => format!("{most} or less"),
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

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// Returns the failure of a check of a document.
    fn failure(check: Value, document: &str) -> CheckFailure {
        let check: options::CheckOptions = serde_json::from_value(check).unwrap();
        let mut scope = Scope::default();
        let compiled = ResponseChecks::compile("list", &[check], &mut scope).unwrap();
        let mut values = Values::new(scope.shared(1), 0);
        let found = compiled.pointers.look(document.as_bytes());
        let check = &compiled.checks[0];
        let outcome = found.map(|mut found| check.test(found.remove(0), &mut values));
        outcome.map_or_else(CheckFailure::from, Result::unwrap_err)
    }

    #[test]
    fn failures_describe_the_value() {
        let document = r#"{"ids": [1], "name": "text"}"#;
        for (check, expected) in [
            (json!({ "json": "/no" }), "the value is missing"),
            (
                json!({ "json": "/ids", "exists": false }),
                "expected no value, found one",
            ),
            (
                json!({ "json": "/ids", "type": "object" }),
                "expected an object, found an array",
            ),
            (
                json!({ "json": "/ids", "length": ">1" }),
                "expected length 2 or more, found 1",
            ),
            (
                json!({ "json": "/ids", "equals": "x" }),
                "the value is an array, not `x`",
            ),
            (
                json!({ "json": "/name", "equals": "x" }),
                "the value is `text`, not `x`",
            ),
            (
                json!({ "json": "/name", "contains": "y" }),
                "the value is `text`, without `y`",
            ),
        ] {
            assert_eq!(failure(check, document).to_string(), expected);
        }
        let not_json = failure(json!({ "json": "/" }), "<html>");
        assert!(matches!(not_json, CheckFailure::Document(_)), "{not_json}");
        let failed = FailedCheck {
            name: "list: /id is there",
            source: CheckFailure::Missing,
        };
        assert_eq!(
            failed.to_string(),
            "list: /id is there: the value is missing"
        );
    }
}
