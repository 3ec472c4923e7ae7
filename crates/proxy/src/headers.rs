//! Header fields that apply to one connection only (RFC 9110, section 7.6).

use http::header::{
    AUTHORIZATION, CONNECTION, CONTENT_LENGTH, COOKIE, EXPECT, HOST, HeaderMap, HeaderName,
    PROXY_AUTHENTICATE, PROXY_AUTHORIZATION, TE, TRANSFER_ENCODING, UPGRADE, VIA, WWW_AUTHENTICATE,
};
use http::{HeaderValue, Version};

const KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");
const PROXY_CONNECTION: HeaderName = HeaderName::from_static("proxy-connection");

/// Removes the fields that apply to one connection. Returns the protocol of the requested upgrade,
/// if any.
pub(crate) fn strip(headers: &mut HeaderMap) -> Option<HeaderValue> {
    let mut upgrade = None;
    if headers.contains_key(CONNECTION) {
        let listed: Vec<HeaderName> = headers
            .get_all(CONNECTION)
            .iter()
            .filter_map(|value| value.to_str().ok())
            .flat_map(|value| value.split(','))
            .filter_map(|name| HeaderName::try_from(name.trim()).ok())
            .collect();
        for name in listed {
            // The destination and the length of a message never apply to one connection only, even
            // if `Connection` lists them.
            if name == HOST || name == CONTENT_LENGTH {
                continue;
            }
            let removed = headers.remove(&name);
            if name == UPGRADE {
                upgrade = removed;
            }
        }
    }
    if headers.contains_key(TRANSFER_ENCODING) {
        // A transfer coding overrides the content length (RFC 9112, section 6.3).
        headers.remove(CONTENT_LENGTH);
    }
    join_lengths(headers);
    for name in [
        CONNECTION,
        KEEP_ALIVE,
        PROXY_CONNECTION,
        PROXY_AUTHENTICATE,
        PROXY_AUTHORIZATION,
        TE,
        TRANSFER_ENCODING,
        UPGRADE,
    ] {
        headers.remove(name);
    }
    upgrade
}

/// Replaces repeated content lengths, and lists of them, by one number without leading zeros (RFC
/// 9110, section 8.6). Different or invalid lengths are removed, so that the body itself determines
/// the length.
fn join_lengths(headers: &mut HeaderMap) {
    if !headers.contains_key(CONTENT_LENGTH) {
        return;
    }
    let length = |text: &str| match text.trim_matches([' ', '\t']) {
        digits if digits.bytes().all(|byte| byte.is_ascii_digit()) => digits.parse::<u64>().ok(),
        _ => None,
    };
    let lengths = headers.get_all(CONTENT_LENGTH).iter();
    let lengths = lengths.flat_map(|value| value.to_str().unwrap_or_default().split(','));
    let lengths: Option<Vec<u64>> = lengths.map(length).collect();
    match lengths.as_deref() {
        Some([first, others @ ..]) if others.iter().all(|other| other == first) => {
            headers.insert(CONTENT_LENGTH, HeaderValue::from(*first));
        }
        _ => drop(headers.remove(CONTENT_LENGTH)),
    }
}

/// Returns the size of the fields as HTTP/2 counts it (RFC 9113, section 6.5.2).
pub(crate) fn size(headers: &HeaderMap) -> usize {
    let sizes = headers
        .iter()
        .map(|(name, value)| name.as_str().len() + value.len() + 32);
    sizes.sum()
}

/// Returns a description of the transfer codings. Returns `None` without a coding and for
/// `chunked`, the only coding that hyper decodes (RFC 9112, section 7).
pub(crate) fn unknown_coding(headers: &HeaderMap) -> Option<String> {
    let values: Vec<_> = headers.get_all(TRANSFER_ENCODING).iter().collect();
    let chunked = |value: &&HeaderValue| {
        value
            .as_bytes()
            .trim_ascii()
            .eq_ignore_ascii_case(b"chunked")
    };
    match &values[..] {
        [] => None,
        [only] if chunked(only) => None,
        all => {
            let all: Vec<_> = all.iter().map(|value| value.as_bytes()).collect();
            let all = all.join(&b", "[..]);
            Some(format!(
                "the transfer coding `{}`, but only `chunked` is supported",
                all.escape_ascii()
            ))
        }
    }
}

/// Returns the requested protocols without HTTP and TLS (`h2c`, RFC 2817), because these would hide
/// requests from the rules. Returns `None` if no protocol is left.
pub(crate) fn permitted_upgrade(asked: &HeaderValue) -> Option<HeaderValue> {
    let hiding = |protocol: &&str| {
        let name = protocol.split('/').next().unwrap_or_default().trim();
        ["h2c", "http", "tls"]
            .iter()
            .any(|h| name.eq_ignore_ascii_case(h))
    };
    let asked = asked.to_str().ok()?.split(',').map(str::trim);
    let left: Vec<&str> = asked.filter(|p| !hiding(p)).collect();
    if left.is_empty() {
        None
    } else {
        HeaderValue::try_from(left.join(", ")).ok()
    }
}

/// Authentication schemes that authenticate a connection instead of a request (RFC 4559, section
/// 6).
const CONNECTION_SCHEMES: [&str; 4] = ["NTLM", "Negotiate", "Nego2", "Kerberos"];

/// Returns whether the message uses or offers authentication of the connection.
pub(crate) fn authenticates_connection(headers: &HeaderMap) -> bool {
    let bound = |name: &HeaderName| {
        let values = headers.get_all(name).iter();
        // A challenge begins the field or follows a comma. A comma in a quoted string can cause a
        // false match, which only costs a connection.
        let challenges = values.flat_map(|value| value.as_bytes().split(|byte| *byte == b','));
        let mut schemes = challenges.filter_map(|challenge| {
            let mut words = challenge.trim_ascii().split(u8::is_ascii_whitespace);
            words.next()
        });
        schemes.any(|scheme| {
            let mut known = CONNECTION_SCHEMES.iter();
            known.any(|known| scheme.eq_ignore_ascii_case(known.as_bytes()))
        })
    };
    [AUTHORIZATION, WWW_AUTHENTICATE, PROXY_AUTHENTICATE]
        .iter()
        .any(bound)
}

/// Returns whether the sender closes the connection after this message.
pub(crate) fn ends_connection(headers: &HeaderMap) -> bool {
    let values = headers.get_all(CONNECTION).iter();
    let mut options = values.flat_map(|value| value.as_bytes().split(|byte| *byte == b','));
    options.any(|option| option.trim_ascii().eq_ignore_ascii_case(b"close"))
}

/// Requests the upgrade on the next connection.
pub(crate) fn ask_upgrade(headers: &mut HeaderMap, protocol: HeaderValue) {
    headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
    headers.insert(UPGRADE, protocol);
}

/// Returns whether the sender accepts trailers (RFC 9110, section 10.1.4).
pub(crate) fn takes_trailers(headers: &HeaderMap) -> bool {
    headers
        .get_all(TE)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .any(|coding| coding.trim().eq_ignore_ascii_case("trailers"))
}

/// Returns whether the client waits for an interim response before it sends the body.
pub(crate) fn expects_continue(headers: &HeaderMap) -> bool {
    let expect = headers.get(EXPECT).and_then(|value| value.to_str().ok());
    expect.is_some_and(|value| value.eq_ignore_ascii_case("100-continue"))
}

/// Adds this proxy to the `Via` field.
pub(crate) fn add_via(headers: &mut HeaderMap, version: Version, name: &str) {
    let version = match version {
        Version::HTTP_10 => "1.0",
        Version::HTTP_2 => "2",
        _ => "1.1",
    };
    if let Ok(value) = HeaderValue::try_from(format!("{version} {name}")) {
        headers.append(VIA, value);
    }
}

/// Writes the fields in the format of HTTP/1.1, one per line.
pub(crate) fn write<'h>(
    fields: impl IntoIterator<Item = (&'h HeaderName, &'h HeaderValue)>,
    into: &mut Vec<u8>,
) {
    for (name, value) in fields {
        for part in [name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"] {
            into.extend_from_slice(part);
        }
    }
}

/// Returns the `Via` field of a CONNECT request to an upstream proxy: the received field and
/// `name`. This proxy recognises a loop by its name.
pub(crate) fn via(headers: &HeaderMap, name: &str) -> HeaderValue {
    let mut by: Vec<&[u8]> = headers
        .get_all(VIA)
        .iter()
        .map(|by| by.as_bytes())
        .collect();
    let own = format!("1.1 {name}");
    by.push(own.as_bytes());
    let via = HeaderValue::from_bytes(&by.join(&b", "[..]));
    via.unwrap_or(HeaderValue::from_static("1.1 lucarne"))
}

/// Returns whether the message passed a proxy of this name.
pub(crate) fn came_by(headers: &HeaderMap, name: &str) -> bool {
    headers
        .get_all(VIA)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .any(|by| by.split_whitespace().nth(1) == Some(name))
}

/// Joins the cookie fields: HTTP/2 splits them for compression, HTTP/1 requires one field (RFC
/// 9113, section 8.2.3).
pub(crate) fn join_cookies(headers: &mut HeaderMap) {
    if headers.get_all(COOKIE).iter().nth(1).is_none() {
        return;
    }
    let crumbs: Vec<&[u8]> = headers
        .get_all(COOKIE)
        .iter()
        .map(|c| c.as_bytes())
        .collect();
    if let Ok(joined) = HeaderValue::from_bytes(&crumbs.join(&b"; "[..])) {
        headers.insert(COOKIE, joined);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_belongs_to_the_connection_goes_no_further() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("connection", "close, X-Once"),
            ("x-once", "1"),
            ("keep-alive", "timeout=5"),
            ("proxy-connection", "keep-alive"),
            ("proxy-authorization", "Basic x"),
            ("te", "trailers"),
            ("transfer-encoding", "chunked"),
            ("upgrade", "h2c"),
            ("x-kept", "1"),
        ] {
            headers.append(name, HeaderValue::from_static(value));
        }
        assert_eq!(strip(&mut headers), None);
        let left: Vec<&str> = headers.keys().map(HeaderName::as_str).collect();
        assert_eq!(left, ["x-kept"]);
    }

    #[test]
    fn an_upgrade_is_one_where_connection_says_so() {
        let mut headers = HeaderMap::new();
        headers.insert(CONNECTION, HeaderValue::from_static("keep-alive, Upgrade"));
        headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
        let upgrade = strip(&mut headers);
        assert_eq!(upgrade, Some(HeaderValue::from_static("websocket")));
        assert!(headers.is_empty());
    }

    #[test]
    fn where_a_message_goes_and_ends_is_not_for_one_connection() {
        let mut headers = HeaderMap::new();
        headers.insert(CONNECTION, HeaderValue::from_static("host, content-length"));
        headers.insert(HOST, HeaderValue::from_static("a.example"));
        headers.insert(CONTENT_LENGTH, HeaderValue::from_static("5"));
        strip(&mut headers);
        assert!(headers.contains_key(HOST) && headers.contains_key(CONTENT_LENGTH));
        headers.insert(TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
        strip(&mut headers);
        assert!(!headers.contains_key(CONTENT_LENGTH), "{headers:?}");
    }

    /// HTTP/2 messages can repeat the content length.
    #[test]
    fn a_repeated_length_becomes_one() {
        for (lengths, expected) in [
            (&["3"][..], Some("3")),
            (&["3", "3"], Some("3")),
            (&["3", "10"], None),
            (&["5, 5"], Some("5")),
            (&["0005"], Some("5")),
            (&["5, 6"], None),
            (&["+5"], None),
            (&[""], None),
        ] {
            let mut headers = HeaderMap::new();
            for length in lengths {
                headers.append(CONTENT_LENGTH, HeaderValue::from_str(length).unwrap());
            }
            strip(&mut headers);
            let left: Vec<_> = headers.get_all(CONTENT_LENGTH).iter().collect();
            assert_eq!(left, Vec::from_iter(expected), "{lengths:?}");
        }
    }

    #[test]
    fn authentication_of_the_connection_is_recognised() {
        for (name, value, expected) in [
            ("authorization", "NTLM TlRMTVNTUAAB", true),
            ("authorization", "negotiate YII=", true),
            ("authorization", "Basic TlRMTQ==", false),
            ("authorization", "Bearer NTLM", false),
            ("www-authenticate", "Nego2", true),
            ("www-authenticate", "Basic realm=\"a\", KERBEROS", true),
            (
                "www-authenticate",
                "Digest realm=\"a\" ,\tNegotiate , NTLM",
                true,
            ),
            ("www-authenticate", "Basic realm=\"NTLM\"", false),
            ("proxy-authenticate", "Basic realm=\"a\",ntlm", true),
            ("x-other", "NTLM", false),
        ] {
            let mut headers = HeaderMap::new();
            headers.append("www-authenticate", HeaderValue::from_static("Basic"));
            headers.append(name, HeaderValue::from_static(value));
            assert_eq!(
                authenticates_connection(&headers),
                expected,
                "{name}: {value}"
            );
        }
    }

    #[test]
    fn a_proxy_knows_itself() {
        let mut headers = HeaderMap::new();
        headers.insert(VIA, HeaderValue::from_static("1.0 fred, 1.1 lucarne-1"));
        assert!(came_by(&headers, "lucarne-1") && !came_by(&headers, "lucarne-2"));
        assert_eq!(
            via(&headers, "lucarne-2"),
            "1.0 fred, 1.1 lucarne-1, 1.1 lucarne-2"
        );
        add_via(&mut headers, Version::HTTP_11, "lucarne-2");
        assert!(came_by(&headers, "lucarne-2"));
    }

    #[test]
    fn cookies_become_one() {
        let mut headers = HeaderMap::new();
        headers.append(COOKIE, HeaderValue::from_static("a=1"));
        headers.append(COOKIE, HeaderValue::from_static("b=2"));
        join_cookies(&mut headers);
        assert_eq!(
            headers.get_all(COOKIE).iter().collect::<Vec<_>>(),
            ["a=1; b=2"]
        );
    }
}
