//! Plans from recorded requests.

use std::fmt::Write as _;

use lucarne_net::is_secret;
use url::Url;

/// Variables of a plan in place of recorded credentials.
#[derive(Debug, Default)]
pub(super) struct Variables(Vec<(String, String)>);

impl Variables {
    /// Returns a value for the plan: a variable, if the name is that of a credential.
    pub(super) fn value(&mut self, name: &str, value: &str) -> String {
        if is_secret(name) && !value.is_empty() {
            self.of(name, value)
        } else {
            plain(value)
        }
    }

    /// Returns the value of a header field for the plan, which may be a URL with credentials.
    pub(super) fn header(&mut self, name: &str, value: &str) -> String {
        let url = Url::parse(value).ok();
        let url = url.filter(|url| matches!(url.scheme(), "http" | "https"));
        let has_user = |url: &Url| !url.username().is_empty() || url.password().is_some();
        match url.filter(|url| url.query().is_some() || has_user(url)) {
            Some(url) if !is_secret(name) => format!("{}{}", origin(&url), self.path(&url)),
            _ => self.value(name, value),
        }
    }

    /// Returns the variable for a credential. Equal credentials of the same name share a variable.
    pub(super) fn of(&mut self, name: &str, value: &str) -> String {
        let letter = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
        let base: String = name.chars().map(letter).collect();
        let base = format!("RECORDED_{}", base.to_ascii_uppercase());
        let number = |(variable, _): &&(String, String)| {
            let rest = variable.strip_prefix(base.as_str());
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with("__"))
        };
        let known: Vec<_> = self.0.iter().filter(number).collect();
        let variable = match known.iter().find(|(_, known)| known == value) {
            Some((variable, _)) => variable.clone(),
            None if known.is_empty() => base,
            None => format!("{base}__{}", known.len() + 1),
        };
        if !self.0.iter().any(|(known, _)| *known == variable) {
            self.0.push((variable.clone(), value.to_owned()));
        }
        format!("${{{variable}}}")
    }

    /// Returns the path and query of a URL, with variables for credentials in the query.
    pub(super) fn path(&mut self, url: &Url) -> String {
        let mut path = plain(url.path());
        for (index, pair) in url
            .query()
            .into_iter()
            .flat_map(|it| it.split('&'))
            .enumerate()
        {
            path.push(if index == 0 { '?' } else { '&' });
            match pair.split_once('=') {
                Some((name, value)) if is_secret(name) => {
                    path.push_str(&format!("{}={}", plain(name), self.value(name, value)));
                }
                _ => path.push_str(&plain(pair)),
            }
        }
        path
    }

    /// Returns the names of all variables.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(name, _)| name.as_str())
    }
}

/// Returns a recorded text in the syntax of plans, where it has no variables and no templates.
fn plain(text: &str) -> String {
    let text = text.replace("${", "$${").replace("{{", "{{\"{{\"}}");
    match text.strip_prefix('@') {
        Some(rest) => format!("{{{{\"@\"}}}}{rest}"),
        None => text,
    }
}

/// Returns a body of the content type `kind`, with variables for credentials in its fields. Another
/// body that names a credential is a variable as a whole.
pub(super) fn body(variables: &mut Variables, kind: &str, text: &str) -> String {
    let is_json = kind.contains("json") || text.starts_with(['{', '[']);
    if is_json && let Ok(mut value) = serde_json::from_str(text) {
        hide(variables, None, &mut value);
        return value.to_string();
    }
    if kind.contains("x-www-form-urlencoded") {
        let pairs = text.split('&').map(|pair| match pair.split_once('=') {
            Some((name, value)) => format!("{}={}", plain(name), variables.value(name, value)),
            None => plain(pair),
        });
        return pairs.collect::<Vec<_>>().join("&");
    }
    if is_secret(text) {
        variables.of("body", text)
    } else {
        plain(text)
    }
}

/// Replaces the texts of credentials in JSON, which are below the name `secret`, by variables.
fn hide(variables: &mut Variables, secret: Option<&str>, value: &mut serde_json::Value) {
    use serde_json::Value::{Array, Object, String as Text};
    match value {
        Array(items) => items
            .iter_mut()
            .for_each(|item| hide(variables, secret, item)),
        Object(entries) => {
            for (name, value) in entries {
                let own = is_secret(name).then_some(name.as_str());
                hide(variables, own.or(secret), value);
            }
        }
        Text(text) => *text = variables.value(secret.unwrap_or_default(), text),
        _ => {}
    }
}

/// A request of a plan.
#[derive(Debug, Default)]
pub(super) struct Recorded {
    /// Method, and path without the query.
    pub(super) name: String,
    pub(super) method: String,
    /// URL or path, in the syntax of plans.
    pub(super) url: String,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Option<String>,
    pub(super) expect: Vec<u16>,
    /// Weight in `requests`.
    pub(super) weight: Option<u64>,
    /// Pause after the request.
    pub(super) think_ms: u64,
}

impl Recorded {
    /// Returns the name of a request with this method and path.
    pub(super) fn name_of(method: &str, path: &str) -> String {
        format!("{method} {}", path.replace([',', '{', '}', '\n'], "_"))
    }
}

/// A plan of recorded requests.
pub(super) struct RecordedPlan<'r> {
    /// Keys of the executor, each on a line.
    pub(super) executor: &'r str,
    /// Further options, each on a line.
    pub(super) options: &'r str,
    /// `steps` or `requests`.
    pub(super) list: &'r str,
    pub(super) requests: Vec<Recorded>,
}

impl RecordedPlan<'_> {
    /// Writes the plan as YAML.
    pub(super) fn yaml(mut self, variables: &Variables) -> String {
        self.distinguish();
        let mut yaml = String::new();
        for name in variables.names() {
            let _ = writeln!(yaml, "# Set {name} to the credential for the test.");
        }
        yaml.push_str("scenarios:\n  recorded:\n    scenario: rest\n");
        let mut lines = |indent: usize, text: &str| {
            for line in text.lines() {
                let _ = writeln!(yaml, "{:indent$}{line}", "");
            }
        };
        lines(4, self.executor);
        lines(4, "options:");
        lines(6, self.options);
        lines(6, &format!("{}:", self.list));
        for request in &self.requests {
            lines(8, &request.yaml());
        }
        yaml
    }

    /// Gives requests with the same name different names.
    fn distinguish(&mut self) {
        for index in 1..self.requests.len() {
            let (before, from) = self.requests.split_at_mut(index);
            let name = from[0].name.clone();
            let mut number = 1;
            while before.iter().any(|other| other.name == from[0].name) {
                number += 1;
                from[0].name = format!("{name} ({number})");
            }
        }
    }
}

impl Recorded {
    fn yaml(&self) -> String {
        let mut yaml = format!(
            "- name: {}\n  url: {}\n",
            quoted(&self.name),
            quoted(&self.url)
        );
        let mut key = |key: &str, value: String| {
            let _ = writeln!(yaml, "  {key}: {value}");
        };
        if self.method != "GET" || self.body.is_some() {
            key("method", quoted(&self.method));
        }
        if !self.headers.is_empty() {
            let headers = self.headers.iter();
            let headers =
                headers.map(|(name, value)| format!("{}: {}", quoted(name), quoted(value)));
            key(
                "headers",
                format!("{{ {} }}", headers.collect::<Vec<_>>().join(", ")),
            );
        }
        if let Some(body) = &self.body {
            key("body", quoted(body));
        }
        let expect: Vec<String> = self.expect.iter().map(u16::to_string).collect();
        key("expect", format!("[{}]", expect.join(", ")));
        if let Some(weight) = self.weight {
            key("weight", weight.to_string());
        }
        if self.think_ms > 0 {
            key("thinkTime", format!("{}ms", self.think_ms));
        }
        yaml
    }
}

/// Returns a text as a quoted scalar of YAML, of which JSON strings are a part.
pub(super) fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// Returns scheme, host and port of a URL, without its credentials.
pub(super) fn origin(url: &Url) -> String {
    url.origin().ascii_serialization()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_become_variables() {
        let mut variables = Variables::default();
        let mut value = |name: &str, value: &str| variables.value(name, value);
        assert_eq!(
            value("Authorization", "Bearer 1"),
            "${RECORDED_AUTHORIZATION}"
        );
        assert_eq!(
            value("authorization", "Bearer 1"),
            "${RECORDED_AUTHORIZATION}"
        );
        assert_eq!(
            value("Authorization", "Bearer 2"),
            "${RECORDED_AUTHORIZATION__2}"
        );
        assert_eq!(value("Accept", "${x} {{y}}"), "$${x} {{\"{{\"}}y}}");
        assert_eq!(value("accept", "@file"), "{{\"@\"}}file");
        let url: Url = "https://a/x?q=1&access_token=t&flag".parse().unwrap();
        assert_eq!(
            variables.path(&url),
            "/x?q=1&access_token=${RECORDED_ACCESS_TOKEN}&flag"
        );
        let json = r#"{"user": "a", "password": "p", "deep": [{"token": "t"}]}"#;
        assert_eq!(
            body(&mut variables, "application/json", json),
            r#"{"deep":[{"token":"${RECORDED_TOKEN}"}],"password":"${RECORDED_PASSWORD}","user":"a"}"#
        );
        let form = "user=a&password=p";
        assert_eq!(
            body(&mut variables, "application/x-www-form-urlencoded", form),
            "user=a&password=${RECORDED_PASSWORD}"
        );
    }

    #[test]
    fn credentials_in_urls_and_in_other_bodies_become_variables() {
        let mut variables = Variables::default();
        let mut header = |name: &str, value: &str| variables.header(name, value);
        assert_eq!(
            header("Referer", "https://me:hush@a.test/x?token=hush&q=1#f"),
            "https://a.test/x?token=${RECORDED_TOKEN}&q=1"
        );
        for unchanged in ["https://a.test", "https://a.test/x", "text/html"] {
            assert_eq!(header("Origin", unchanged), unchanged);
        }
        assert_eq!(header("Authorization", "hush"), "${RECORDED_AUTHORIZATION}");
        let url: Url = "https://me:hush@a.test:8443/x".parse().unwrap();
        assert_eq!(origin(&url), "https://a.test:8443");
        let mut of = |kind: &str, text: &str| body(&mut variables, kind, text);
        let multipart = "--x\r\nContent-Disposition: form-data; name=\"Password\"\r\n\r\nhush\r\n";
        assert_eq!(
            of("multipart/form-data; boundary=x", multipart),
            "${RECORDED_BODY}"
        );
        assert_eq!(of("text/xml", "<token>hush</token>"), "${RECORDED_BODY__2}");
        assert_eq!(of("text/plain", "hello"), "hello");
        assert_eq!(
            of("text/plain", r#"{"credentials":["hush",{"id":"hush2"}]}"#),
            r#"{"credentials":["${RECORDED_CREDENTIALS}",{"id":"${RECORDED_CREDENTIALS__2}"}]}"#
        );
        assert_eq!(
            of("application/json", "{\"secret\": "),
            "${RECORDED_BODY__3}"
        );
    }
}
