//! The JSON response to a submission or read that failed.

use std::fmt;

use http::header::{ACCEPT_ENCODING, ALLOW, CONNECTION, RETRY_AFTER};
use http::{HeaderValue, Method, StatusCode};
use lucarne_ct::{Code, Rejection};
use lucarne_log::{Lane, SubmitError};
use lucarne_net::RequestId;
use serde::Serialize;

use crate::budget::{Exhausted, MAX_WAITING_EACH};
use crate::error_page::PATH;
use crate::reply::{Response, plain, value};

/// A JSON response with an error: `{"error": …, "code": …, "certificate_index": …, "detail": …,
/// "help": …}`.
///
/// `error` is the kind of problem as a sentence, `code` is the kind as a stable code for programs.
/// `certificate_index` counts from the leaf and is null if no certificate caused the error.
/// `detail` states the found value and the accepted values. `help` is the URL of the code on the
/// page of all errors.
#[derive(Debug)]
pub(crate) struct ErrorResponse {
    status: StatusCode,
    body: ErrorBody,
    retry_after: Option<u32>,
    allow: Option<&'static str>,
    close: bool,
    request: Option<RequestId>,
}

/// Body of an error, as an extension of its response. The metrics count responses by code, and
/// [`link`] writes the body when the log of the request is known.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct ErrorBody {
    error: &'static str,
    pub(crate) code: &'static str,
    certificate_index: Option<usize>,
    detail: String,
}

/// An error with the link to its explanation.
#[derive(Serialize)]
struct LinkedError<'a> {
    #[serde(flatten)]
    body: &'a ErrorBody,
    help: String,
}

/// Writes the body of a refusal. `prefix` is the URL with the page of all errors.
pub(crate) fn link(response: &mut Response, prefix: &str) {
    let Some(body) = response.extensions().get::<ErrorBody>() else {
        return;
    };
    let help = format!("{prefix}{PATH}#{}", body.code);
    let json = serde_json::to_vec(&LinkedError { body, help }).unwrap_or_default();
    *response.body_mut() = json.into();
}

impl ErrorResponse {
    pub(crate) fn new(status: StatusCode, code: &'static str, detail: impl Into<String>) -> Self {
        ErrorResponse {
            status,
            body: ErrorBody {
                error: title(status),
                code,
                certificate_index: None,
                detail: detail.into(),
            },
            retry_after: None,
            allow: None,
            close: false,
            request: None,
        }
    }

    /// Closes the connection after the response, because the rest of the request is not worth
    /// reading.
    pub(crate) fn and_close(mut self) -> Self {
        self.close = true;
        self
    }

    /// Adds the ID of the refused request, which the process also logs.
    pub(crate) fn of_request(mut self, id: RequestId) -> Self {
        self.request = Some(id);
        self
    }

    pub(crate) fn too_large(limit: usize) -> Self {
        let detail = format!("the body is too long: expected at most {limit} bytes");
        Self::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            Code::BodyTooLarge.as_str(),
            detail,
        )
        .and_close()
    }

    pub(crate) fn method(method: &Method, allow: &'static str) -> Self {
        let detail = format!("{method} is not allowed here; allowed: {allow}");
        let mut error = Self::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", detail);
        error.allow = Some(allow);
        error
    }

    /// Creates the response to a refused read.
    pub(crate) fn read(status: StatusCode, code: &'static str, detail: impl Into<String>) -> Self {
        let mut error = Self::new(status, code, detail);
        error.body.error = "the request was refused";
        error
    }

    /// Creates the response to a refused request that would wait for the log to grow.
    pub(crate) fn waiting(exhausted: Exhausted) -> Self {
        let (status, detail) = match exhausted {
            Exhausted::Client => (
                StatusCode::TOO_MANY_REQUESTS,
                format!(
                    "this client has {MAX_WAITING_EACH} requests that wait for logs to grow, \
                     the maximum for one client: use one connection to the feed"
                ),
            ),
            Exhausted::All => (
                StatusCode::SERVICE_UNAVAILABLE,
                "the server has the maximum number of waiting requests".to_owned(),
            ),
        };
        let mut error = Self::read(status, "too_many_waiting", detail);
        error.retry_after = Some(30);
        error
    }

    /// Adds a `Retry-After` of this number of seconds.
    pub(crate) fn and_retry(mut self, seconds: u32) -> Self {
        self.retry_after = Some(seconds);
        self
    }

    fn retry(code: &'static str, after: u32, detail: impl Into<String>) -> Self {
        let mut error = Self::new(StatusCode::SERVICE_UNAVAILABLE, code, detail);
        error.retry_after = Some(after.max(1));
        error
    }

    /// Creates the response without its body, which [`link`] adds.
    pub(crate) fn into_response(self) -> Response {
        let mut response = plain(self.status, &value::JSON, &value::NO_STORE, "");
        response.extensions_mut().insert(self.body);
        let headers = response.headers_mut();
        if let Some(seconds) = self.retry_after {
            headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        if let Some(allow) = self.allow {
            headers.insert(ALLOW, HeaderValue::from_static(allow));
        }
        if self.status == StatusCode::UNSUPPORTED_MEDIA_TYPE {
            // The accepted encodings (RFC 7694).
            headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        }
        if let Some(id) = self.request {
            headers.insert(RequestId::HEADER, id.to_value());
        }
        if self.close {
            headers.insert(CONNECTION, value::CLOSE.clone());
        }
        response
    }
}

impl fmt::Display for ErrorResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ErrorBody { code, detail, .. } = &self.body;
        write!(f, "{} {code}: {detail}", self.status.as_u16())
    }
}

fn title(status: StatusCode) -> &'static str {
    match status {
        StatusCode::BAD_REQUEST => "the submission was refused",
        StatusCode::SERVICE_UNAVAILABLE => "the log accepts no submissions right now",
        StatusCode::GONE => "the log accepts no more submissions",
        StatusCode::PAYLOAD_TOO_LARGE => "the body is too large",
        StatusCode::REQUEST_TIMEOUT => "the request took too long",
        StatusCode::METHOD_NOT_ALLOWED => "the method is not allowed here",
        StatusCode::UNSUPPORTED_MEDIA_TYPE => "the body's encoding is not supported",
        StatusCode::NOT_FOUND => "not found",
        _ => "the log failed",
    }
}

impl From<Rejection> for ErrorResponse {
    fn from(rejection: Rejection) -> Self {
        let status = StatusCode::from_u16(rejection.status()).unwrap_or(StatusCode::BAD_REQUEST);
        let mut error = Self::new(status, rejection.code.as_str(), rejection.detail);
        error.body.certificate_index = rejection.certificate_index;
        error
    }
}

/// The memory budget for incomplete bodies is exhausted.
impl From<Exhausted> for ErrorResponse {
    fn from(exhausted: Exhausted) -> Self {
        let detail = match exhausted {
            Exhausted::Client => {
                "this client has the maximum number of bytes of bodies in flight: complete those \
                 requests first"
            }
            Exhausted::All => {
                "the server has the maximum number of bytes of bodies in flight; retry in a moment"
            }
        };
        Self::retry("too_much_in_flight", 1, detail).and_close()
    }
}

impl From<SubmitError> for ErrorResponse {
    fn from(error: SubmitError) -> Self {
        let words = error.to_string();
        match error {
            SubmitError::Rejected(rejection) => rejection.into(),
            SubmitError::Full {
                lane,
                retry_after_seconds,
            } => {
                let code = match lane {
                    Lane::Fresh => "pool_full",
                    Lane::Old => "backlog_full",
                };
                Self::retry(code, retry_after_seconds, words)
            }
            SubmitError::Unavailable(cause) => {
                Self::retry("unavailable", cause.retry_after_seconds(), words)
            }
            SubmitError::Gone => Self::new(StatusCode::GONE, "gone", words),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(response: &mut Response) -> &str {
        link(response, "https://log.example/a/");
        std::str::from_utf8(response.body().bytes()).unwrap()
    }

    #[test]
    fn a_rejection_keeps_its_code_and_certificate() {
        let rejection = Rejection::of(1, Code::WrongOrder, "the issuer is \"X\"");
        let rejected = ErrorResponse::from(SubmitError::Rejected(rejection));
        let mut response = rejected.into_response();
        assert_eq!(response.status(), 400);
        assert_eq!(
            body(&mut response),
            r#"{"error":"the submission was refused","code":"wrong_order","certificate_index":1,"detail":"the issuer is \"X\"","help":"https://log.example/a/errors#wrong_order"}"#
        );
    }

    #[test]
    fn retry_after_is_whole_seconds_and_never_none() {
        for (lane, code) in [(Lane::Fresh, "pool_full"), (Lane::Old, "backlog_full")] {
            let error = SubmitError::Full {
                lane,
                retry_after_seconds: 0,
            };
            let mut response = ErrorResponse::from(error).into_response();
            assert_eq!(response.status(), 503);
            assert_eq!(response.headers()[RETRY_AFTER], "1");
            let code = format!(r#""code":"{code}","certificate_index":null"#);
            assert!(body(&mut response).contains(&code));
        }
    }

    #[test]
    fn a_retired_log_is_gone() {
        let response = ErrorResponse::from(SubmitError::Gone).into_response();
        assert_eq!(response.status(), 410);
        assert!(!response.headers().contains_key(RETRY_AFTER));
    }
}
