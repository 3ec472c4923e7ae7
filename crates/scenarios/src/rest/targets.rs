//! Files of requests in the two formats of vegeta.

use base64_simd::STANDARD;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::io;

use super::files::{self, FileError};

/// Reasons why a file cannot be read as a list of requests.
#[derive(Debug, thiserror::Error)]
pub(super) enum TargetsError {
    #[error("cannot be read: {0}")]
    Unreadable(#[from] io::Error),
    #[error("the file has no request")]
    Empty,
    #[error("line {line}: {source}")]
    Line { line: usize, source: LineError },
}

/// Reasons why a line of a file is invalid.
#[derive(Debug, thiserror::Error)]
pub(super) enum LineError {
    #[error("expected METHOD URL, found `{0}`")]
    RequestLine(String),
    #[error("expected `Name: value`, found `{0}`")]
    Header(String),
    #[error(transparent)]
    File(#[from] FileError),
    #[error("expected a JSON object with `method` and `url`: {0}")]
    Json(#[from] serde_json::Error),
    #[error("`body` is not base64")]
    Base64(#[from] base64_simd::Error),
}

impl LineError {
    fn at(self, line: usize) -> TargetsError {
        TargetsError::Line { line, source: self }
    }
}

/// A request of a file.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) method: String,
    pub(super) url: String,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Option<Vec<u8>>,
}

/// Parses a file: one JSON object per line, or `METHOD URL` with headers and `@body`.
pub(super) fn read(content: &str) -> Result<Vec<Target>, TargetsError> {
    let targets = if content.trim_start().starts_with('{') {
        json(content)?
    } else {
        http(content)?
    };
    if targets.is_empty() {
        Err(TargetsError::Empty)
    } else {
        Ok(targets)
    }
}

/// Parses vegeta's `-format=http`.
fn http(content: &str) -> Result<Vec<Target>, TargetsError> {
    let mut targets: Vec<Target> = Vec::new();
    for (number, line) in content.lines().enumerate() {
        http_line(line.trim(), &mut targets).map_err(|error| error.at(number + 1))?;
    }
    Ok(targets)
}

fn http_line(line: &str, targets: &mut Vec<Target>) -> Result<(), LineError> {
    if line.is_empty() || line.starts_with('#') {
        return Ok(());
    }
    if let Some((method, url)) = request_line(line) {
        targets.push(Target {
            method: method.to_owned(),
            url: url.to_owned(),
            ..Target::default()
        });
        return Ok(());
    }
    let Some(target) = targets.last_mut() else {
        return Err(LineError::RequestLine(line.to_owned()));
    };
    if let Some(body) = files::bytes(line)? {
        target.body = Some(body);
        return Ok(());
    }
    match line.split_once(':') {
        Some((name, value)) => {
            let header = (name.trim().to_owned(), value.trim().to_owned());
            target.headers.push(header);
            Ok(())
        }
        None => Err(LineError::Header(line.to_owned())),
    }
}

fn request_line(line: &str) -> Option<(&str, &str)> {
    let (method, url) = line.split_once([' ', '\t'])?;
    let is_method = method.bytes().all(|byte| byte.is_ascii_uppercase());
    is_method.then_some((method, url.trim()))
}

/// Parses vegeta's `-format=json`.
fn json(content: &str) -> Result<Vec<Target>, TargetsError> {
    let lines = content.lines().enumerate();
    let lines = lines.filter(|(_, line)| !line.trim().is_empty());
    lines
        .map(|(number, line)| json_line(line).map_err(|error| error.at(number + 1)))
        .collect()
}

fn json_line(text: &str) -> Result<Target, LineError> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Line {
        method: String,
        url: String,
        #[serde(default)]
        body: Option<String>,
        #[serde(default)]
        header: BTreeMap<String, Vec<String>>,
    }
    let line: Line = serde_json::from_str(text)?;
    let body = line
        .body
        .map(|body| STANDARD.decode_to_vec(body))
        .transpose()?;
    let headers = line.header.into_iter();
    let headers = headers
        .flat_map(|(name, values)| values.into_iter().map(move |value| (name.clone(), value)));
    Ok(Target {
        method: line.method,
        url: line.url,
        headers: headers.collect(),
        body,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_formats_say_the_same() {
        let directory = tempfile::tempdir().unwrap();
        let body = directory.path().join("body");
        std::fs::write(&body, b"{{}\0").unwrap();
        let text = format!(
            "# a comment\nGET http://a/x?y=1\nX-One: 1\nX-One: a:b\n\nPOST http://a/z\n@{}\nDELETE http://b/\n",
            body.display()
        );
        let lines = "{\"method\":\"GET\",\"url\":\"http://a/x?y=1\",\"header\":{\"X-One\":[\"1\",\"a:b\"]}}\n\
                     {\"method\":\"POST\",\"url\":\"http://a/z\",\"body\":\"e3t9AA==\"}\n\
                     {\"method\":\"DELETE\",\"url\":\"http://b/\"}\n";
        let targets = read(&text).unwrap();
        assert_eq!(targets, read(lines).unwrap());
        assert_eq!(targets.len(), 3);
        assert_eq!(targets[1].body.as_deref(), Some(&b"{{}\0"[..]));
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        for (content, why) in [
            ("", "the file has no request"),
            (
                "X-One: 1\n",
                "line 1: expected METHOD URL, found `X-One: 1`",
            ),
            (
                "GET http://a/\nnonsense\n",
                "line 2: expected `Name: value`, found `nonsense`",
            ),
            (
                "{\"method\":\"GET\",\"url\":\"http://a/\",\"body\":\"%\"}\n",
                "line 1: `body` is not base64",
            ),
        ] {
            assert_eq!(read(content).unwrap_err().to_string(), why, "{content}");
        }
        let missing = read("POST http://a/\n@/no/such/file\n").unwrap_err();
        let TargetsError::Line { line: 2, source } = missing else {
            panic!("{missing}");
        };
        assert!(matches!(source, LineError::File(_)), "{source}");
    }
}
