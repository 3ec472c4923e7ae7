//! The key `otlp`: export of traces and metrics.

use std::fmt::Display;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue};
use lucarne_settings::form::{Durations, Shape};
use lucarne_settings::values::{ValueError, parsed};
use lucarne_settings::{Key, Located, Reader, Value};
use url::Url;

use super::keys::otlp::{KEYS, TABLE, header};
use super::keys::top;
use super::secret::{Secret, SecretError};
use super::{keys, manager};

/// Valid intervals of metrics.
const INTERVALS: Durations = Durations::within(Duration::from_secs(1), Duration::from_secs(3600));

/// Settings of the export of traces and metrics.
#[derive(Clone, Debug)]
pub struct OtlpSettings {
    /// URL of the collector, without a slash at its end.
    pub endpoint: String,
    /// Additional header fields of each request. Their values are secret.
    pub headers: HeaderMap,
    /// The files with these values, with the keys that name them.
    private_files: Vec<(String, Located<PathBuf>)>,
    /// Name of this service.
    pub service_name: String,
    /// The part of the submissions that is traced, from 0 to 1, except for those with a parent.
    pub sampling_ratio: f64,
    /// Time between two exports of metrics; `None` if metrics are not exported.
    pub metrics_interval: Option<Duration>,
}

impl OtlpSettings {
    /// Time between two exports of the metrics of a load test.
    #[cfg(feature = "load")]
    const LOAD_INTERVAL: Duration = Duration::from_secs(5);

    /// Returns the settings of the export of a load test to the collector at `url`.
    ///
    /// # Errors
    /// The reason why the URL is invalid, which follows the URL.
    #[cfg(feature = "load")]
    pub(crate) fn of_load(url: &str) -> Result<Self, &'static str> {
        Ok(OtlpSettings {
            endpoint: endpoint(url)?,
            headers: HeaderMap::new(),
            private_files: Vec::new(),
            service_name: "lucarne-load".to_owned(),
            sampling_ratio: 0.0,
            metrics_interval: Some(Self::LOAD_INTERVAL),
        })
    }
}

/// Returns the files with the values of header fields, with the keys that name them.
pub(super) fn private_files(settings: &Option<OtlpSettings>) -> Vec<(String, Located<PathBuf>)> {
    let settings = settings.as_ref();
    settings.map_or(Vec::new(), |settings| settings.private_files.clone())
}

/// Reads `otlp`.
pub(super) fn read(top: &mut Reader<'_, '_>) -> Option<OtlpSettings> {
    let mut reader = keys::inside(top, &top::KEYS.otlp, &TABLE)?;
    let mut private_files = Vec::new();
    let headers = headers(&mut reader, &mut private_files);
    let endpoint = reader.parse(&KEYS.endpoint, endpoint);
    let endpoint = reader.required(&KEYS.endpoint, endpoint, "http://localhost:4318");
    if let Some(url) = &endpoint
        && !headers.is_empty()
        && manager::is_exposed(&url.value)
    {
        let message = "has no TLS: an eavesdropper can read the values of `headers`; use `https`";
        reader.warning(url.line, &KEYS.endpoint, message);
    }
    let service_name = with_default(&mut reader, &KEYS.service_name, parsed::<String>);
    let sampling_ratio = with_default(&mut reader, &KEYS.sampling_ratio, ratio);
    let metrics_interval = with_default(&mut reader, &KEYS.metrics_interval, interval);
    Some(OtlpSettings {
        endpoint: endpoint?.value,
        headers,
        private_files,
        service_name: service_name?,
        sampling_ratio: sampling_ratio?,
        metrics_interval: metrics_interval?,
    })
}

/// Reads a key, or parses its documented default.
fn with_default<T, E: Display>(
    reader: &mut Reader<'_, '_>,
    key: &Key<Shape>,
    parser: fn(&str) -> Result<T, E>,
) -> Option<T> {
    let value = reader.value(key, parser);
    value.or_else(|| parser(&key.about.plain_default()).ok())
}

/// Parses the URL of the collector.
fn endpoint(text: &str) -> Result<String, &'static str> {
    const EXAMPLE: &str = "is not a URL such as `http://localhost:4318`";
    let url = Url::parse(text).map_err(|_| EXAMPLE)?;
    if !["http", "https"].contains(&url.scheme()) || !url.has_host() {
        return Err(EXAMPLE);
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("has a user name or a password: write them as a header field `authorization`");
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err("has a query or a fragment: write only the part before `/v1/traces`");
    }
    Ok(text.trim_end_matches('/').to_owned())
}

fn ratio(text: &str) -> Result<f64, &'static str> {
    let ratio = text.parse().ok();
    let ratio = ratio.filter(|ratio| (0.0..=1.0).contains(ratio));
    ratio.ok_or("is not a number from 0 to 1")
}

fn interval(text: &str) -> Result<Option<Duration>, ValueError> {
    match text {
        "off" => Ok(None),
        text => INTERVALS.parse_duration(text).map(Some),
    }
}

/// Reads the list of `headers`. Adds the files with their values to `private_files`.
fn headers(
    settings: &mut Reader<'_, '_>,
    private_files: &mut Vec<(String, Located<PathBuf>)>,
) -> HeaderMap {
    let mut headers = HeaderMap::new();
    let Some(node) = settings.node(&KEYS.headers) else {
        return headers;
    };
    let Value::List(nodes) = &node.value else {
        let message = "must be a list: one `- name: …` with its `value` for each header field";
        settings.problem(Some(node.line), &KEYS.headers, message);
        return headers;
    };
    for (index, node) in nodes.iter().enumerate() {
        let key = format!("{}[{index}]", KEYS.headers.name());
        let entry = keys::entry(settings, &key, node, &header::TABLE);
        let Some(mut reader) = entry else { continue };
        let name = reader.parse(&header::KEYS.name, |text| {
            HeaderName::try_from(text).map_err(|_| "is not the name of a header field")
        });
        let name = reader.required(&header::KEYS.name, name, "authorization");
        let value = header_value(&mut reader);
        if let (Some(name), Some((value, file))) = (name, value) {
            headers.append(name.value, value);
            private_files.extend(file.map(|file| (reader.path_of(&header::KEYS.value), file)));
        }
    }
    headers
}

/// Reads the value of a header field from its source. Also returns the file that only the server
/// may read. No message has the text of a missing file, because this text may be the value itself.
fn header_value(reader: &mut Reader<'_, '_>) -> Option<(HeaderValue, Option<Located<PathBuf>>)> {
    let directory = reader.directory();
    let secret = reader.parse(&header::KEYS.value, |text| Secret::parse(text, directory));
    let secret = reader.required(&header::KEYS.value, secret, "credential:otlp")?;
    let (source, line) = (secret.value, secret.line);
    source.warn_of_group(reader, line, &header::KEYS.value);
    let problem = match source.text() {
        Ok(text) => match HeaderValue::try_from(text) {
            Ok(mut value) => {
                value.set_sensitive(true);
                let file = source.private_file().map(|file| Located {
                    value: file.to_owned(),
                    line,
                });
                return Some((value, file));
            }
            Err(_) => format!("{source} has characters that a header field cannot have"),
        },
        Err(why) if is_no_path(&why) => "is not a file: the value itself cannot be in the \
                                         configuration. Write it to a file with mode 0600, and \
                                         write the path of that file here"
            .to_owned(),
        Err(why) => format!("{source} {why}"),
    };
    reader.problem(line, &header::KEYS.value, problem);
    None
}

/// Returns whether no file has this path. A token may be too long for a path, or have a part
/// like a file in place of a directory.
fn is_no_path(error: &SecretError) -> bool {
    match error {
        SecretError::Absent(_) => true,
        SecretError::Read(error) => matches!(
            error.kind(),
            ErrorKind::InvalidFilename | ErrorKind::InvalidInput | ErrorKind::NotADirectory
        ),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use lucarne_settings::{Node, Report, tree};

    use super::*;

    fn reader<'t, 'r>(root: &'t Node, report: &'r mut Report) -> Reader<'t, 'r> {
        let top = keys::open(root, "", &top::TABLE, report).unwrap();
        Reader::new(top, "", Path::new("/none"), report)
    }

    fn parsed(yaml: &str) -> (Option<OtlpSettings>, String) {
        let root = tree::parse(yaml).unwrap();
        let mut report = Report::on(None);
        let settings = read(&mut reader(&root, &mut report));
        (settings, report.problem_lines().join("\n"))
    }

    #[test]
    fn the_defaults_are_those_of_the_documentation() {
        let (settings, problems) = parsed("otlp: {endpoint: 'http://localhost:4318/'}");
        let settings = settings.unwrap();
        assert_eq!(problems, "");
        assert_eq!(settings.endpoint, "http://localhost:4318");
        assert_eq!(settings.service_name, "lucarne");
        assert_eq!(settings.sampling_ratio, 1.0);
        assert_eq!(settings.metrics_interval, Some(Duration::from_secs(60)));
    }

    #[test]
    fn every_problem_is_reported() {
        let yaml = "otlp: {endpoint: ftp://x, sampling_ratio: 2, metrics_interval: 1ms, \
                    headers: [{name: 'a b', value: Bearer secret-token}, {}], protocol: grpc}";
        let (settings, problems) = parsed(yaml);
        assert!(settings.is_none());
        for part in [
            "otlp.endpoint: `ftp://x` is not a URL such as",
            "otlp.sampling_ratio: `2` is not a number from 0 to 1",
            "otlp.metrics_interval",
            "otlp.headers[0].name: `a b` is not the name of a header field",
            "otlp.headers[0].value: is not a file: the value itself",
            "otlp.headers[1].name: is missing",
            "otlp.protocol",
        ] {
            assert!(problems.contains(part), "{part}:\n{problems}");
        }
        assert!(!problems.contains("secret-token"), "{problems}");
    }

    #[test]
    fn credentials_in_the_endpoint_are_refused_and_not_printed() {
        for user in ["user:secret-token", "secret-token"] {
            let yaml = format!("otlp: {{endpoint: 'https://{user}@x'}}");
            let (settings, problems) = parsed(&yaml);
            assert!(settings.is_none());
            assert!(
                problems.contains("has a user name or a password"),
                "{problems}"
            );
            assert!(!problems.contains("secret-token"), "{problems}");
        }
    }

    #[test]
    fn a_token_without_tls_is_a_warning() {
        for (endpoint, warnings) in [
            ("http://otel.example:4318", 1),
            ("https://otel.example:4318", 0),
            ("http://127.0.0.1:4318", 0),
        ] {
            let yaml = format!(
                "otlp: {{endpoint: '{endpoint}', headers: [{{name: a, value: 'exec: echo b'}}]}}"
            );
            let root = tree::parse(&yaml).unwrap();
            let mut report = Report::on(None);
            assert!(read(&mut reader(&root, &mut report)).is_some());
            assert_eq!(report.warnings().len(), warnings, "{endpoint}");
        }
    }

    #[test]
    fn a_token_that_cannot_be_a_path_is_not_printed() {
        let long = "secret-token.".repeat(400);
        for token in [long.as_str(), "/dev/null/secret-token"] {
            let yaml = format!(
                "otlp: {{endpoint: 'https://x', headers: [{{name: a, value: \"{token}\"}}]}}"
            );
            let problems = parsed(&yaml).1;
            assert!(problems.contains("is not a file"), "{problems}");
            assert!(!problems.contains("secret-token"), "{problems}");
        }
    }

    #[test]
    fn header_values_are_not_printed() {
        let yaml = "otlp: {endpoint: 'https://x', metrics_interval: off, headers: [{name: \
                    authorization, value: 'exec: echo secret-token'}]}";
        let settings = parsed(yaml).0.unwrap();
        assert_eq!(settings.headers["authorization"], "secret-token");
        assert_eq!(settings.metrics_interval, None);
        assert!(!format!("{settings:?}").contains("secret-token"));
    }
}
