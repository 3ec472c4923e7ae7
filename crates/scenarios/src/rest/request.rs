//! A compiled request.

use http::Method;
use lucarne_load::http::{Keep, Response};
use serde_json::Value;
use url::{Position, Url};

use super::condition::{Condition, ConditionError};
use super::files;
use super::json_pointers::JsonPointerError;
use super::options::{Header, Json, Step};
use super::own_metrics::MetricError;
use super::phases::PHASES;
use super::response_checks::{ChecksError, ResponseChecks};
use super::targets::Target;
use super::template::{Escaping, NameError, Scope, Template, TemplateError, TextError, Values};
use crate::connection_options::{Pause, StatusRange, expected, list};
use crate::framing::{self, FramingError};
use crate::interned::intern;
use crate::url_characters::{self, UrlCharacterError};

/// Compiles the path of a URL.
type CompilePath = fn(&str, &mut Scope) -> Result<Template, TemplateError>;

/// Reasons why a request of a plan or of a file is invalid. The message begins with the key.
#[derive(Debug, thiserror::Error)]
pub(super) enum RequestError {
    #[error("url: {0}")]
    Url(#[from] UrlError),
    #[error("method: `{0}` is not an HTTP method")]
    Method(String),
    /// The method in a file, which has no keys.
    #[error("`{0}` is not an HTTP method")]
    TargetMethod(String),
    #[error("name: `{0}` must not contain commas or braces")]
    Name(String),
    #[error("name: `{0}` is the name of another request")]
    NameTaken(String),
    #[error("weight: must be above 0")]
    Weight,
    #[error("body: cannot be combined with `json`")]
    BodyAndJson,
    #[error("body: {0}")]
    Body(#[from] TextError),
    #[error("json: {0}")]
    Json(#[source] TemplateError),
    #[error("headers.{name}: {source}")]
    Header { name: String, source: TemplateError },
    #[error(transparent)]
    Framing(#[from] FramingError),
    #[error(transparent)]
    Checks(#[from] ChecksError),
    #[error(transparent)]
    Value(#[from] NameError),
    #[error(transparent)]
    Capture(#[from] JsonPointerError),
    #[error("if: {0}")]
    Condition(#[from] ConditionError),
    #[error("{key}.{name}: {source}")]
    Metric {
        /// `counters` or `rates`.
        key: &'static str,
        name: String,
        source: MetricError,
    },
    #[error("{0}: is allowed only in `steps`")]
    OnlyInSteps(&'static str),
    #[error("{0}: is not counted outside the load: remove the key")]
    OutsideLoad(&'static str),
    #[error("parallel[{index}].{source}")]
    Parallel {
        index: usize,
        source: Box<RequestError>,
    },
    #[error("parallel: cannot be combined with other keys; write the keys in its items")]
    ParallelWithOthers,
    #[error("parallel: needs HTTP/2; add `http: 2` to the options")]
    ParallelWithoutHttp2,
    #[error("parallel: all its requests must have the same scheme, host and port")]
    ParallelServers,
}

/// Reasons why the URL of a request is invalid.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum UrlError {
    #[error("is missing")]
    Missing,
    #[error("`{0}` has no scheme (https://), and there is no `baseUrl`")]
    NoScheme(String),
    #[error("`{0}` has a template in its host: only the path can have templates")]
    TemplateInHost(String),
    #[error("`{origin}` is not a URL: {source}")]
    Invalid {
        origin: String,
        source: url::ParseError,
    },
    #[error(transparent)]
    Character(#[from] UrlCharacterError),
    #[error(transparent)]
    Path(#[from] TemplateError),
}

/// The status of a response is not expected.
#[derive(Debug, thiserror::Error)]
#[error("expected status {}, found {status}{}{excerpt}", list(.expected), separator(.excerpt))]
pub(super) struct UnexpectedStatus<'r> {
    pub(super) status: u16,
    pub(super) expected: &'r [StatusRange],
    /// Beginning of the response's body.
    pub(super) excerpt: String,
}

fn separator(excerpt: &str) -> &'static str {
    if excerpt.is_empty() { "" } else { ": " }
}

/// A request that is sent repeatedly.
#[derive(Debug)]
pub(super) struct Request {
    /// Name in reports.
    pub(super) name: String,
    /// Index of the request's server among the servers of the scenario.
    pub(super) server: usize,
    pub(super) method: Method,
    pub(super) path: Template,
    pub(super) headers: Vec<(String, Template)>,
    pub(super) body: Option<RequestBody>,
    expect: Vec<StatusRange>,
    /// Name of the check of the status.
    pub(super) status_check: &'static str,
    pub(super) checks: ResponseChecks,
    pub(super) think_time: Option<Pause>,
    /// Condition without which the request is not sent.
    condition: Option<Condition>,
    /// Largest number of redirects to follow.
    pub(super) redirects: u32,
    /// Number of requests from this one on that are sent concurrently.
    pub(super) concurrent: usize,
    /// Weight plus the weights of all requests before it.
    pub(super) weight: f64,
}

/// Body of a request.
#[derive(Debug)]
pub(super) enum RequestBody {
    /// A template that is rendered for each request.
    Template(Template),
    /// Unchanged bytes of a file.
    Bytes(Vec<u8>),
}

/// State shared by the requests of one scenario during compilation.
#[derive(Debug, Default)]
pub(super) struct Compiler<'o> {
    pub(super) scope: Scope,
    /// Servers of the requests: scheme, host and port.
    pub(super) servers: Vec<String>,
    pub(super) base: Option<&'o str>,
    pub(super) headers: &'o [Header],
    pub(super) redirects: u32,
    pub(super) http2: bool,
}

impl Compiler<'_> {
    /// Compiles a request, or the requests of `parallel`, in a list with this key.
    pub(super) fn group(
        &mut self,
        key: &str,
        step: &Step,
        forgotten: &mut Vec<usize>,
    ) -> Result<Vec<Request>, RequestError> {
        if key == "requests" && step.condition.is_some() {
            return Err(RequestError::OnlyInSteps("if"));
        }
        let metrics = [("counters", &step.counters), ("rates", &step.rates)];
        let metric = metrics.iter().find(|(_, metrics)| !metrics.is_empty());
        if let Some(&(metric, _)) = metric.filter(|_| PHASES.contains(&key)) {
            return Err(RequestError::OutsideLoad(metric));
        }
        if step.parallel.is_empty() {
            return Ok(vec![self.request(step, forgotten)?]);
        }
        let alone = Step {
            parallel: step.parallel.clone(),
            ..Step::default()
        };
        match () {
            () if key != "steps" => return Err(RequestError::OnlyInSteps("parallel")),
            () if *step != alone => return Err(RequestError::ParallelWithOthers),
            () if !self.http2 => return Err(RequestError::ParallelWithoutHttp2),
            () => {}
        }
        let mut group = Vec::new();
        let before = self.scope.visible();
        let mut after = Vec::new();
        for (index, step) in step.parallel.iter().enumerate() {
            // Concurrent requests cannot use the values of each other.
            let _ = self.scope.see(before.clone());
            let request = match step.parallel.as_slice() {
                [] => self.request(step, forgotten),
                _ => Err(RequestError::OnlyInSteps("parallel")),
            };
            group.push(request.map_err(|source| RequestError::Parallel {
                index,
                source: Box::new(source),
            })?);
            after.extend(self.scope.visible());
        }
        let _ = self.scope.see(after);
        if group.iter().any(|it| it.server != group[0].server) {
            return Err(RequestError::ParallelServers);
        }
        group[0].concurrent = group.len();
        Ok(group)
    }

    /// Compiles one request and declares the values that it captures. Adds the slots that last for
    /// one iteration to `forgotten`.
    pub(super) fn request(
        &mut self,
        step: &Step,
        forgotten: &mut Vec<usize>,
    ) -> Result<Request, RequestError> {
        let condition = step.condition.as_ref();
        let condition = condition.map(|text| Condition::compile(text, &mut self.scope));
        let condition = condition.transpose()?;
        let (server, path, shown) = self.url(&step.url, Template::compile_path)?;
        let body = self.body(step)?;
        let method = match &step.method {
            None if body.is_some() => Method::POST,
            None => Method::GET,
            Some(name) => Method::from_bytes(name.to_uppercase().as_bytes())
                .map_err(|_| RequestError::Method(name.clone()))?,
        };
        let name = match step.name.as_str() {
            "" => format!("{method} {shown}"),
            name => name.to_owned(),
        };
        if name.contains([',', '{', '}', '\n']) {
            return Err(RequestError::Name(name));
        }
        let headers = self.headers(step)?;
        framed(&headers, body.as_ref())?;
        let mut checks = ResponseChecks::compile(&name, &step.checks, &mut self.scope)?;
        let lists = [
            ("counters", false, &step.counters),
            ("rates", true, &step.rates),
        ];
        for (key, is_rate, metrics) in lists {
            for (metric, condition) in metrics {
                let added = checks.metric(&name, metric, is_rate, condition, &mut self.scope);
                added.map_err(|source| RequestError::Metric {
                    key,
                    name: metric.clone(),
                    source,
                })?;
            }
        }
        let captured = step.capture.iter().map(|pair| (pair, false));
        let remembered = step.remember.iter().map(|pair| (pair, true));
        for ((value, place), stays) in captured.chain(remembered) {
            let slot = self.scope.declare(value)?;
            checks.capture(&name, value, place, slot)?;
            if !stays {
                forgotten.push(slot);
            }
        }
        let weight = step.weight.unwrap_or(1.0);
        if !(weight.is_finite() && weight > 0.0) {
            return Err(RequestError::Weight);
        }
        let expect = match step.expect.as_slice() {
            [] => vec![StatusRange::class(2)],
            given => given.to_vec(),
        };
        Ok(Request {
            status_check: intern(&format!("{name}: status is {}", list(&expect))),
            name,
            server,
            method,
            path,
            headers,
            body,
            expect,
            checks,
            think_time: step.think_time,
            condition,
            redirects: step.redirects.unwrap_or(self.redirects),
            concurrent: 1,
            weight,
        })
    }

    /// Compiles one request of a file without templates.
    pub(super) fn target(
        &mut self,
        target: Target,
        expect: &[StatusRange],
    ) -> Result<Request, RequestError> {
        let (server, path, shown) = self.url(&target.url, |path, _| Ok(Template::fixed(path)))?;
        let method = Method::from_bytes(target.method.as_bytes())
            .map_err(|_| RequestError::TargetMethod(target.method))?;
        let name = format!("{method} {shown}");
        let own = |Header(name, _): &&Header| {
            let mut own = target.headers.iter();
            own.any(|(other, _)| other.eq_ignore_ascii_case(name))
        };
        let of_all = self.headers.iter().filter(|header| !own(header));
        let of_all = of_all.map(|Header(name, value)| (name.clone(), value.clone()));
        let all = of_all.chain(target.headers.iter().cloned());
        let headers = all.map(|(name, value)| (name, Template::fixed(&value)));
        let headers: Vec<(String, Template)> = headers.collect();
        let body = target.body.map(RequestBody::Bytes);
        framed(&headers, body.as_ref())?;
        let expect = match expect {
            // A redirect that is not followed is a failure, except to the browser's cache.
            [] if self.redirects > 0 => vec![StatusRange::class(2), StatusRange::one(304)],
            expect => expected(expect),
        };
        Ok(Request {
            status_check: intern(&format!("status is {}", list(&expect))),
            headers,
            checks: ResponseChecks::compile(&name, &[], &mut self.scope)?,
            name,
            server,
            method,
            path,
            body,
            expect,
            think_time: None,
            condition: None,
            redirects: self.redirects,
            concurrent: 1,
            weight: 1.0,
        })
    }

    /// Returns the server of a URL, its compiled path, and its form in reports.
    fn url(
        &mut self,
        text: &str,
        compile: CompilePath,
    ) -> Result<(usize, Template, String), UrlError> {
        // The query of a path may contain a URL.
        let scheme = text.split_once("://");
        let absolute = scheme.is_some_and(|(scheme, _)| !scheme.contains(['/', '?']));
        let whole = match (absolute, self.base) {
            (true, _) => text.to_owned(),
            (false, Some(base)) => {
                let slash = if text.starts_with('/') { "" } else { "/" };
                format!("{}{slash}{text}", base.trim_end_matches('/'))
            }
            (false, None) if text.is_empty() => return Err(UrlError::Missing),
            (false, None) => return Err(UrlError::NoScheme(text.to_owned())),
        };
        let after_scheme = whole.find("://").map_or(0, |at| at + 3);
        let slash = whole[after_scheme..].find(['/', '?']);
        let (origin, path) = whole.split_at(slash.map_or(whole.len(), |at| after_scheme + at));
        if origin.contains("{{") {
            return Err(UrlError::TemplateInHost(origin.to_owned()));
        }
        let parsed = Url::parse(origin).map_err(|source| UrlError::Invalid {
            origin: origin.to_owned(),
            source,
        })?;
        let origin = parsed[..Position::BeforePath].to_owned();
        let path = if path.starts_with('/') {
            path.to_owned()
        } else {
            format!("/{path}")
        };
        let path = path.split('#').next().unwrap_or_default();
        let known = self.servers.iter().position(|server| *server == origin);
        let server = known.unwrap_or_else(|| {
            self.servers.push(origin);
            self.servers.len() - 1
        });
        let template = compile(path, &mut self.scope)?;
        template.texts().try_for_each(url_characters::check)?;
        Ok((server, template, shown(path)))
    }

    fn body(&mut self, step: &Step) -> Result<Option<RequestBody>, RequestError> {
        match (&step.body, &step.json) {
            (Some(_), Some(_)) => Err(RequestError::BodyAndJson),
            (None, None) => Ok(None),
            (Some(text), None) => Ok(Some(self.text(text)?)),
            (None, Some(Json(value))) => json(value, &mut self.scope)
                .map(|it| Some(RequestBody::Template(it)))
                .map_err(RequestError::Json),
        }
    }

    /// Returns the body that is written as a text or as the name of a file.
    fn text(&mut self, text: &str) -> Result<RequestBody, TextError> {
        Ok(match files::bytes(text)? {
            Some(bytes) => RequestBody::Bytes(bytes),
            None => {
                RequestBody::Template(Template::compile(text, Escaping::Plain, &mut self.scope)?)
            }
        })
    }

    /// Returns the headers of the request, and the common headers that the request does not
    /// override.
    fn headers(&mut self, step: &Step) -> Result<Vec<(String, Template)>, RequestError> {
        let mut headers: Vec<(String, Template)> = Vec::new();
        let of_all = self.headers.iter().filter(|Header(name, _)| {
            let mut own = step.headers.iter();
            !own.any(|Header(other, _)| other.eq_ignore_ascii_case(name))
        });
        for Header(name, value) in of_all.chain(&step.headers) {
            let value = Template::compile(value, Escaping::Plain, &mut self.scope);
            let name = name.clone();
            match value {
                Ok(value) => headers.push((name, value)),
                Err(source) => return Err(RequestError::Header { name, source }),
            }
        }
        let has_type = |(name, _): &(String, _)| name.eq_ignore_ascii_case("content-type");
        if step.json.is_some() && !headers.iter().any(has_type) {
            headers.push(("content-type".into(), Template::fixed("application/json")));
        }
        Ok(headers)
    }
}

impl Request {
    /// Returns method and name for messages.
    pub(super) fn shown(&self) -> String {
        // A request without a name is named by method and path.
        if self.name.starts_with(self.method.as_str()) {
            self.name.clone()
        } else {
            format!("{} {}", self.method, self.name)
        }
    }

    /// Returns the part of the response's body that the checks need.
    pub(super) fn kept_body(&self) -> Keep {
        if self.checks.read_body() {
            Keep::All
        } else {
            Keep::Coded
        }
    }

    /// Returns whether the condition of the request is true.
    pub(super) fn applies(&self, values: &mut Values) -> bool {
        let condition = self.condition.as_ref();
        condition.is_none_or(|condition| condition.holds(values))
    }

    /// Checks the status of the response.
    pub(super) fn status(&self, response: &Response) -> Result<(), UnexpectedStatus<'_>> {
        let status = response.status;
        if self.expect.iter().any(|expected| expected.contain(status)) {
            return Ok(());
        }
        let excerpt: String = response.excerpt().chars().take(100).collect();
        Err(UnexpectedStatus {
            status,
            expected: &self.expect,
            excerpt: excerpt.trim_end_matches(": ").to_owned(),
        })
    }
}

/// Checks the headers that depend on the body.
fn framed(headers: &[(String, Template)], body: Option<&RequestBody>) -> Result<(), FramingError> {
    let length = match body {
        None => Some(0),
        Some(RequestBody::Template(template)) => template.as_fixed().map(str::len),
        Some(RequestBody::Bytes(bytes)) => Some(bytes.len()),
    };
    let headers = headers.iter();
    framing::check(
        headers.map(|(name, value)| (name.as_str(), value.as_fixed())),
        length,
    )
}

/// Returns a path without its query, with `*` for each template.
fn shown(path: &str) -> String {
    let mut shown = String::new();
    let mut rest = path;
    while let Some((before, after)) = rest.split_once("{{") {
        shown.push_str(before);
        shown.push('*');
        rest = after.split_once("}}").map_or("", |(_, after)| after);
    }
    shown.push_str(rest);
    let shown = shown.split('?').next().unwrap_or_default();
    shown.replace([',', '{', '}'], "_")
}

/// Compiles JSON whose texts contain templates.
fn json(value: &Value, scope: &mut Scope) -> Result<Template, TemplateError> {
    let mut all = Template::fixed("");
    let mut push = |text: &str| all.extend(Template::fixed(text));
    match value {
        Value::Array(items) => {
            push("[");
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    all.extend(Template::fixed(","));
                }
                all.extend(json(item, scope)?);
            }
            all.extend(Template::fixed("]"));
        }
        Value::Object(entries) => {
            push("{");
            for (index, (key, value)) in entries.iter().enumerate() {
                let comma = if index > 0 { "," } else { "" };
                let key = Value::String(key.clone());
                all.extend(Template::fixed(&format!("{comma}{key}:")));
                all.extend(json(value, scope)?);
            }
            all.extend(Template::fixed("}"));
        }
        Value::String(text) if Template::is_raw(text) => {
            all.extend(Template::compile(text.trim(), Escaping::Json, scope)?);
        }
        Value::String(text) => {
            push("\"");
            all.extend(escaped(text, scope)?);
            all.extend(Template::fixed("\""));
        }
        other => push(&other.to_string()),
    }
    Ok(all)
}

/// Compiles a JSON text; the text around the values is escaped, too.
fn escaped(text: &str, scope: &mut Scope) -> Result<Template, TemplateError> {
    let whole = Template::compile(text, Escaping::Json, scope)?;
    Ok(whole.escape_texts())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unexpected_status_has_the_beginning_of_the_body() {
        let expected = [StatusRange::class(2), StatusRange::one(404)];
        let said = |excerpt: &str| {
            let error = UnexpectedStatus {
                status: 302,
                expected: &expected,
                excerpt: excerpt.to_owned(),
            };
            error.to_string()
        };
        assert_eq!(said(""), "expected status 2xx or 404, found 302");
        assert_eq!(
            said("moved"),
            "expected status 2xx or 404, found 302: moved"
        );
    }
}
