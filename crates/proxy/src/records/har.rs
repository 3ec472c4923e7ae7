//! Entries of a HAR file (HTTP Archive 1.2).

use std::io::Read as _;

use flate2::read::{MultiGzDecoder, ZlibDecoder};
use serde_json::{Value, json};
use url::Url;

use super::tap::BODY;
use super::{Content, Details, Record};

/// Start of a HAR file. Entries follow, separated by commas.
pub const HAR_HEAD: &str = concat!(
    r#"{"log":{"version":"1.2","creator":{"name":"Lucarne proxy","version":""#,
    env!("CARGO_PKG_VERSION"),
    r#""},"pages":[],"entries":["#
);

/// End of a HAR file, after the last entry.
pub const HAR_TAIL: &str = "\n]}}\n";

/// Formats an exchange as an entry of a HAR file, on one line. Returns `None` if the request has no
/// `http` or `https` URL.
pub fn har_entry(record: &Record, details: &Details) -> Option<String> {
    let url = Url::parse(&record.url).ok()?;
    if !matches!(url.scheme(), "http" | "https") {
        return None;
    }
    let query = url.query_pairs();
    let query: Vec<Value> = query.map(|(name, value)| pair(&name, &value)).collect();
    let mut request = json!({
        "method": record.method,
        "url": url.as_str(),
        "httpVersion": record.protocol,
        "cookies": [],
        "headers": headers(&details.request),
        "queryString": query,
        "headersSize": -1,
        "bodySize": record.request_bytes,
    });
    let mut comments: Vec<String> = record.reason.iter().cloned().collect();
    match posted(&details.request) {
        Ok(Some(post)) => request["postData"] = post,
        Ok(None) => {}
        Err(why) => comments.push(why.to_owned()),
    }
    let location = details.response.header("location").unwrap_or_default();
    let status = record.status.unwrap_or(0);
    let wait = record.wait_ms.unwrap_or(record.duration_ms);
    let mut entry = json!({
        "startedDateTime": format!("{:.3}", record.time),
        "time": record.duration_ms,
        "request": request,
        "response": {
            "status": status,
            "statusText": reason_phrase(status),
            "httpVersion": record.protocol,
            "cookies": [],
            "headers": headers(&details.response),
            "content": content(record, &details.response),
            "redirectURL": location,
            "headersSize": -1,
            "bodySize": record.response_bytes,
        },
        "cache": {},
        "timings": {
            "send": 0,
            "wait": wait,
            "receive": (record.duration_ms - wait).max(0.0),
        },
        "_id": record.id.to_string(),
    });
    if let Some(error) = record.error {
        entry["_error"] = error.into();
    }
    if !comments.is_empty() {
        entry["comment"] = comments.join(" ").into();
    }
    Some(entry.to_string())
}

fn pair(name: &str, value: &str) -> Value {
    json!({"name": name, "value": value})
}

fn headers(content: &Content) -> Vec<Value> {
    let headers = content.headers.iter();
    headers.map(|(name, value)| pair(name, value)).collect()
}

fn kind(content: &Content) -> &str {
    content.header("content-type").unwrap_or_default()
}

fn reason_phrase(status: u16) -> &'static str {
    let status = http::StatusCode::from_u16(status).ok();
    status
        .and_then(|status| status.canonical_reason())
        .unwrap_or_default()
}

/// Returns the body of a request. An incomplete body would be another request, and is left out.
fn posted(request: &Content) -> Result<Option<Value>, &'static str> {
    match &request.body {
        None => Ok(None),
        Some((bytes, true)) if bytes.is_empty() => Ok(None),
        Some((_, false)) => Err("The body of the request is too large for the record."),
        Some((bytes, true)) => match str::from_utf8(bytes) {
            Ok(text) => Ok(Some(json!({"mimeType": kind(request), "text": text}))),
            Err(_) => Err("The body of the request is not text."),
        },
    }
}

/// Returns the decoded body of a response, or its start.
fn content(record: &Record, response: &Content) -> Value {
    let mut content = json!({"size": record.response_bytes, "mimeType": kind(response)});
    let Some((bytes, whole)) = &response.body else {
        return content;
    };
    let coding = response.header("content-encoding").unwrap_or("identity");
    let Some(decoded) = decoded(coding, bytes) else {
        content["comment"] = format!("The coding {coding} is not decoded.").into();
        return content;
    };
    if *whole && decoded.len() < BODY {
        content["size"] = decoded.len().into();
    } else {
        content["comment"] = "The text is the start of the body.".into();
    }
    match String::from_utf8(decoded) {
        Ok(text) => content["text"] = text.into(),
        Err(error) => {
            content["text"] = base64_simd::STANDARD
                .encode_to_string(error.as_bytes())
                .into();
            content["encoding"] = "base64".into();
        }
    }
    content
}

/// Decodes at most [`BODY`] bytes. Returns `None` for an unknown coding. The body may be cut off.
fn decoded(coding: &str, bytes: &[u8]) -> Option<Vec<u8>> {
    let mut decoded = Vec::new();
    let limit = BODY as u64;
    // A decoder appends the bytes before an error.
    let _ = match coding.trim().to_ascii_lowercase().as_str() {
        "gzip" | "x-gzip" => MultiGzDecoder::new(bytes)
            .take(limit)
            .read_to_end(&mut decoded),
        "deflate" => ZlibDecoder::new(bytes)
            .take(limit)
            .read_to_end(&mut decoded),
        "identity" | "" => return Some(bytes.to_vec()),
        _ => return None,
    };
    Some(decoded)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::super::record::tests::example;
    use super::*;

    fn details(coding: &str, body: &[u8], whole: bool) -> Details {
        let fields = |fields: &[(&str, &str)]| {
            let fields = fields.iter();
            fields
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect()
        };
        Details {
            request: Content {
                headers: fields(&[("Content-Type", "text/plain")]),
                body: Some((b"sent".to_vec(), true)),
            },
            response: Content {
                headers: fields(&[("content-encoding", coding), ("content-type", "text/css")]),
                body: Some((body.to_vec(), whole)),
            },
        }
    }

    fn entry(details: &Details) -> Value {
        let entry = har_entry(&example(), details).unwrap();
        assert!(!entry.contains('\n'), "{entry}");
        serde_json::from_str(&entry).unwrap()
    }

    #[test]
    fn an_entry_has_the_required_fields() {
        let entry = entry(&details("identity", b"a {}", true));
        assert_eq!(entry["startedDateTime"], "2025-11-28T15:00:00.123Z");
        assert_eq!(
            entry["request"]["queryString"][0],
            json!({"name": "q", "value": "1"})
        );
        assert_eq!(entry["request"]["postData"]["text"], "sent");
        assert_eq!(entry["response"]["content"]["text"], "a {}");
        assert_eq!(entry["response"]["content"]["mimeType"], "text/css");
        assert_eq!(entry["timings"]["receive"], 0.75);
        for field in ["cookies", "headers"] {
            assert!(entry["request"][field].is_array() && entry["response"][field].is_array());
        }
        let file = format!("{HAR_HEAD}\n{entry},\n{entry}{HAR_TAIL}");
        let file: Value = serde_json::from_str(&file).unwrap();
        assert_eq!(file["log"]["entries"].as_array().unwrap().len(), 2);
    }

    #[test]
    fn bodies_are_decoded_within_the_limit() {
        let long = vec![b'a'; 3 * BODY];
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(&long).unwrap();
        let gzip = gzip.finish().unwrap();
        let text = |details: &Details| entry(details)["response"]["content"]["text"].clone();
        let all = text(&details("gzip", &gzip, true));
        assert_eq!(all.as_str().unwrap().len(), BODY);
        let start = text(&details("gzip", &gzip[..gzip.len() / 2], false));
        assert!(start.as_str().unwrap().starts_with("aaaa"));
        let binary = entry(&details("identity", &[0xff, 0], true));
        assert_eq!(binary["response"]["content"]["text"], "/wA=");
        assert_eq!(binary["response"]["content"]["encoding"], "base64");
        let unknown = entry(&details("br", b"x", true));
        assert_eq!(unknown["response"]["content"]["text"], Value::Null);
    }

    #[test]
    fn an_exchange_without_a_url_has_no_entry() {
        let record = Record {
            url: "www.example.com:443".to_owned(),
            ..example()
        };
        assert_eq!(har_entry(&record, &Details::default()), None);
    }

    #[test]
    fn an_incomplete_request_body_is_left_out() {
        let mut cut = details("identity", b"", true);
        cut.request.body = Some((b"se".to_vec(), false));
        let entry = entry(&cut);
        assert_eq!(entry["request"]["postData"], Value::Null);
        assert!(entry["comment"].as_str().unwrap().contains("too large"));
    }
}
