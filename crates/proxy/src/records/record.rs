//! The record of one exchange, and its line in an access log.

use std::fmt;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::sync::Arc;

use jiff::Timestamp;
use lucarne_net::RequestId;
use serde::{Serialize, Serializer};

/// Actions of the proxy on a connection or a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum RecordAction {
    /// Forwarded a request for a URL.
    Forward,
    /// Responded in place of the server, after CONNECT.
    Intercept,
    /// Forwarded bytes unchanged.
    Tunnel,
    /// Refused the request by its rules, its users or its limits.
    Refuse,
}

impl RecordAction {
    /// Returns the name in records.
    pub fn name(self) -> &'static str {
        match self {
            RecordAction::Forward => "forward",
            RecordAction::Intercept => "intercept",
            RecordAction::Tunnel => "tunnel",
            RecordAction::Refuse => "refuse",
        }
    }
}

/// TLS between client and proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ClientTls {
    /// Version: `TLSv1.3`.
    pub version: &'static str,
    /// Cipher suite: `TLS13_AES_256_GCM_SHA384`.
    pub cipher: &'static str,
}

/// A finished exchange. Serializes as a line of the access log in JSON.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Record {
    /// Start of the exchange.
    #[serde(serialize_with = "milliseconds")]
    pub time: Timestamp,
    /// Identifier of the request in the log of the process.
    #[serde(serialize_with = "text")]
    pub id: RequestId,
    /// Address of the client.
    pub client: SocketAddr,
    /// User of the proxy.
    #[serde(serialize_with = "name")]
    pub user: Option<Arc<str>>,
    /// Action of the proxy.
    pub action: RecordAction,
    /// Method of the request; `-` if the request was unreadable.
    pub method: String,
    /// URL; `host:port` of CONNECT.
    pub url: String,
    /// Version of HTTP with the client.
    pub protocol: &'static str,
    /// Status of the response; `None` if there was no response.
    pub status: Option<u16>,
    /// Bytes of the body from the client.
    pub request_bytes: u64,
    /// Bytes of the body to the client.
    pub response_bytes: u64,
    /// Milliseconds until the response began.
    pub wait_ms: Option<f64>,
    /// Milliseconds until the end.
    pub duration_ms: f64,
    /// TLS between client and proxy.
    pub tls: Option<ClientTls>,
    /// `Referer` of the request.
    pub referer: Option<String>,
    /// `User-Agent` of the request.
    pub user_agent: Option<String>,
    /// Kind of the failure, as in `Proxy-Status` (RFC 9209).
    pub error: Option<&'static str>,
    /// Text of the failure.
    pub reason: Option<String>,
}

fn milliseconds<S: Serializer>(time: &Timestamp, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(&format_args!("{time:.3}"))
}

fn text<T: fmt::Display, S: Serializer>(value: &T, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(value)
}

fn name<S: Serializer>(name: &Option<Arc<str>>, to: S) -> Result<S::Ok, S::Error> {
    name.as_deref().serialize(to)
}

impl Record {
    /// Formats the record as a line in the combined format of Apache and nginx.
    pub fn combined(&self) -> String {
        let mut line = format!("{} - ", self.client.ip());
        field(&mut line, self.user.as_deref(), ' ');
        let _ = write!(
            line,
            " [{}] \"",
            self.time.strftime("%d/%b/%Y:%H:%M:%S +0000")
        );
        field(&mut line, Some(&self.method), ' ');
        line.push(' ');
        field(&mut line, Some(&self.url), ' ');
        let _ = write!(line, " {}\" ", self.protocol);
        match self.status {
            Some(status) => _ = write!(line, "{status}"),
            None => line.push('-'),
        }
        let _ = write!(line, " {} \"", self.response_bytes);
        field(&mut line, self.referer.as_deref(), '"');
        line.push_str("\" \"");
        field(&mut line, self.user_agent.as_deref(), '"');
        line.push('"');
        line
    }

    /// Formats the record as one line of JSON.
    pub fn json(&self) -> String {
        // Serializing texts and numbers cannot fail.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Returns the time of day, for tables.
    pub fn clock(&self) -> String {
        self.time.strftime("%H:%M:%S").to_string()
    }

    /// Returns the status, the kind of the failure, or both.
    pub fn outcome(&self) -> String {
        let status = self.status.map_or("-".to_owned(), |it| it.to_string());
        match self.error {
            Some(error) => format!("{status} {error}"),
            None => status,
        }
    }

    /// Estimates the memory in bytes.
    pub(crate) fn weight(&self) -> usize {
        let texts = [&self.referer, &self.user_agent, &self.reason];
        let texts: usize = texts.into_iter().flatten().map(String::len).sum();
        size_of::<Self>() + self.method.len() + self.url.len() + texts
    }
}

/// Appends a value, or `-`. Control characters, `\`, `"` and `end` are escaped.
fn field(line: &mut String, value: Option<&str>, end: char) {
    let value = value.filter(|value| !value.is_empty()).unwrap_or("-");
    for c in value.chars() {
        match c {
            '"' | '\\' => line.extend(['\\', c]),
            c if c == end || c.is_control() || matches!(c, '\u{2028}' | '\u{2029}') => {
                let mut bytes = [0; 4];
                for byte in c.encode_utf8(&mut bytes).bytes() {
                    let _ = write!(line, "\\x{byte:02x}");
                }
            }
            c => line.push(c),
        }
    }
}

/// Selection of records by words. A record matches if it contains all words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordFilter(Vec<String>);

impl RecordFilter {
    /// Parses words that are separated by spaces. The case is ignored. The word `failed` selects
    /// records with a failure.
    pub fn parse(text: &str) -> Self {
        let text: String = text.chars().take(253).collect();
        RecordFilter(text.split_whitespace().map(str::to_lowercase).collect())
    }

    pub(super) fn matches(&self, record: &Record) -> bool {
        if self.0.is_empty() {
            return true;
        }
        let Record {
            method,
            url,
            client,
            user,
            action,
            ..
        } = record;
        let (action, outcome) = (action.name(), record.outcome());
        let user = user.as_deref().unwrap_or_default();
        let failed = record.error.map_or("", |_| "failed");
        let all = format!("{method} {url} {client} {user} {action} {outcome} {failed}");
        let all = all.to_lowercase();
        self.0.iter().all(|word| all.contains(word))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn example() -> Record {
        Record {
            time: Timestamp::from_millisecond(1_764_342_000_123).unwrap(),
            id: RequestId::new(),
            client: "192.0.2.1:5123".parse().unwrap(),
            user: Some("anna".into()),
            action: RecordAction::Intercept,
            method: "GET".to_owned(),
            url: "https://www.example.com/path?q=1".to_owned(),
            protocol: "HTTP/2.0",
            status: Some(200),
            request_bytes: 0,
            response_bytes: 512,
            wait_ms: Some(1.5),
            duration_ms: 2.25,
            tls: Some(ClientTls {
                version: "TLSv1.3",
                cipher: "TLS13_AES_256_GCM_SHA384",
            }),
            referer: None,
            user_agent: Some("curl/8".to_owned()),
            error: None,
            reason: None,
        }
    }

    #[test]
    fn a_line_has_the_combined_format() {
        assert_eq!(
            example().combined(),
            "192.0.2.1 - anna [28/Nov/2025:15:00:00 +0000] \"GET \
             https://www.example.com/path?q=1 HTTP/2.0\" 200 512 \"-\" \"curl/8\""
        );
        let hostile = Record {
            user: Some("a b".into()),
            method: "-".to_owned(),
            status: None,
            user_agent: Some("x\" \\ \n\u{1b}[2J\u{2028}".to_owned()),
            ..example()
        };
        let line = hostile.combined();
        assert!(line.starts_with("192.0.2.1 - a\\x20b ["), "{line}");
        assert!(line.contains("\" - 512 \"-\" "), "{line}");
        let agent = "\"x\\\" \\\\ \\x0a\\x1b[2J\\xe2\\x80\\xa8\"";
        assert!(line.ends_with(agent), "{line}");
    }

    #[test]
    fn a_line_of_json_has_every_field() {
        let mut record = example();
        record.error = Some("connection_refused");
        record.reason = Some("a \"reason\"\n".to_owned());
        let line = record.json();
        assert!(!line.contains('\n'), "{line}");
        let json: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(json["time"], "2025-11-28T15:00:00.123Z");
        assert_eq!(json["id"], record.id.to_string());
        assert_eq!(json["action"], "intercept");
        assert_eq!(json["tls"]["version"], "TLSv1.3");
        assert_eq!(json["responseBytes"], 512);
        assert_eq!(json["error"], "connection_refused");
    }

    #[test]
    fn a_filter_needs_all_its_words() {
        let (plain, mut failed) = (example(), example());
        failed.error = Some("connection_refused");
        failed.status = Some(502);
        for (filter, matching) in [
            ("", [true, true]),
            ("  example.COM get ", [true, true]),
            ("anna 200", [true, false]),
            ("failed", [false, true]),
            ("refused 502", [false, true]),
            ("tunnel", [false, false]),
        ] {
            let parsed = RecordFilter::parse(filter);
            let matches = [&plain, &failed].map(|record| parsed.matches(record));
            assert_eq!(matches, matching, "{filter}");
        }
    }
}
