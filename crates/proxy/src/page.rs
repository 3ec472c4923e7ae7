//! Responses that the proxy writes itself.

use askama::Template;
use bytes::Bytes;
use http::header::{
    ACCEPT, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderMap, PROXY_AUTHENTICATE,
    RETRY_AFTER,
};
use http::{HeaderName, HeaderValue, Response, StatusCode};
use lucarne_net::RequestId;

use crate::body::Body;
use crate::certificate_summary::CertificateSummary;
use crate::failure::Failure;

pub(crate) const PROXY_STATUS: HeaderName = HeaderName::from_static("proxy-status");
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'";

#[derive(Template)]
#[template(path = "failure.html")]
struct Page<'a> {
    status: StatusCode,
    title: &'a str,
    host: Option<&'a str>,
    reason: String,
    facts: Option<&'a CertificateSummary>,
    advice: &'a str,
}

/// Returns the response that reports `failure`: HTML if the client accepts it, text otherwise. `id`
/// identifies the request in the process log.
pub(crate) fn failure(
    id: RequestId,
    failure: &Failure,
    host: Option<&str>,
    headers: &HeaderMap,
) -> Response<Body> {
    let status = failure.status();
    let (kind, text) = if wants_html(headers) {
        ("text/html; charset=utf-8", html(failure, host))
    } else {
        ("text/plain; charset=utf-8", text(failure, host))
    };
    let mut response = response(status, kind, text);
    let headers = response.headers_mut();
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    headers.insert(RequestId::HEADER, id.to_value());
    if let Ok(value) = HeaderValue::try_from(failure.proxy_status()) {
        headers.insert(PROXY_STATUS, value);
    }
    if status == StatusCode::PROXY_AUTHENTICATION_REQUIRED {
        let realm = r#"Basic realm="Lucarne proxy", charset="UTF-8""#;
        headers.insert(PROXY_AUTHENTICATE, HeaderValue::from_static(realm));
    }
    if matches!(
        status,
        StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS
    ) {
        headers.insert(RETRY_AFTER, HeaderValue::from_static("1"));
    }
    response
}

/// Returns a response that must not be cached.
pub(crate) fn response(
    status: StatusCode,
    kind: &'static str,
    body: impl Into<Bytes>,
) -> Response<Body> {
    let mut response = Response::new(Body::full(body.into()));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// Formats the failure as a few lines of text.
pub(crate) fn text(failure: &Failure, host: Option<&str>) -> String {
    let mut text = format!("{}: {}", failure.status(), failure.title());
    if let Some(host) = host {
        text.push_str(&format!(" ({host})"));
    }
    text.push_str(&format!("\n\n{}\n", failure.reason()));
    if let Some(facts) = failure.facts() {
        text.push_str(&format!(
            "\nCertificate for  {}\nIssued by        {}\nValid            {} through {}\n",
            facts.subject, facts.issuer, facts.not_before, facts.not_after
        ));
    }
    text.push_str(&format!(
        "\nWhat to do: {}\n\n(reported by the Lucarne proxy, not by the server)\n",
        failure.advice()
    ));
    text
}

fn html(failure: &Failure, host: Option<&str>) -> String {
    let page = Page {
        status: failure.status(),
        title: failure.title(),
        host,
        reason: failure.reason(),
        facts: failure.facts(),
        advice: failure.advice(),
    };
    page.render().unwrap_or_else(|_| text(failure, host))
}

/// Returns whether the client names HTML in `Accept`, as browsers do. curl and libraries accept any
/// type.
fn wants_html(headers: &HeaderMap) -> bool {
    headers
        .get_all(ACCEPT)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .any(|value| value.contains("text/html"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use lucarne_mint::Time;
    use lucarne_mint::testing::Pki;

    /// Formats a certificate of this validity as the page and as text.
    fn formatted(not_before: i64, not_after: i64) -> (String, String) {
        let mut options = Pki::shared().leaf("dated.example");
        options.not_before = Time::from_unix(not_before);
        options.not_after = Time::from_unix(not_after);
        let leaf = Pki::shared().p256.issue(&options).unwrap();
        let facts = CertificateSummary::of(&leaf.into()).unwrap();
        let failure = Failure::Certificate("expired".to_owned(), Some(Box::new(facts)));
        (html(&failure, None), text(&failure, None))
    }

    #[test]
    fn the_validity_of_a_certificate_can_be_read() {
        let (page, text) = formatted(1_751_371_200, 1_759_147_199);
        for formatted in [&page, &text] {
            assert!(formatted.contains("2025-07-01 12:00:00 UTC"), "{formatted}");
            assert!(formatted.contains("2025-09-29 11:59:59 UTC"), "{formatted}");
        }
        // The notAfter of a certificate without expiry (RFC 5280, section 4.1.2.5).
        let (page, _) = formatted(0, 253_402_300_799);
        assert!(page.contains("1970-01-01 00:00:00 UTC"), "{page}");
        assert!(page.contains("9999-12-31 23:59:59 UTC"), "{page}");
    }

    #[test]
    fn whoever_has_to_wait_is_told_so() {
        use crate::checks::ChecksFull::{OfAll, OfClient};
        for (full, status) in [(OfClient, 429), (OfAll, 503)] {
            let response = failure(
                RequestId::new(),
                &Failure::Checks(full),
                None,
                &HeaderMap::new(),
            );
            assert_eq!(response.status(), status);
            assert_eq!(response.headers()[RETRY_AFTER], "1");
            // With this header, a browser would request another password from the user.
            assert!(!response.headers().contains_key(PROXY_AUTHENTICATE));
        }
    }

    #[test]
    fn what_the_server_says_is_text_not_markup() {
        let facts = CertificateSummary {
            subject: "CN=<script>alert(1)</script>".to_owned(),
            issuer: "CN=\"&".to_owned(),
            not_before: "a".to_owned(),
            not_after: "b".to_owned(),
        };
        let failure = Failure::Certificate("expired".to_owned(), Some(Box::new(facts)));
        let page = html(&failure, Some("<b>"));
        assert!(
            !page.contains("<script>") && !page.contains("<b>"),
            "{page}"
        );
        assert!(page.contains("502 Bad Gateway"), "{page}");
        let text = text(&failure, Some("a.example:443"));
        assert!(
            text.contains("(a.example:443)") && text.contains("expired"),
            "{text}"
        );
    }
}
