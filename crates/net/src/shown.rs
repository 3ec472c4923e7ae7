//! Texts for messages, reports and logs, without the secrets and the control characters that they
//! contain.

use std::fmt::Write as _;

use lucarne_x509::text::is_control;

/// Replaces the control characters of one line by escape sequences of JSON: `\u001b`. In a
/// terminal, the characters of a server or of a file could move the cursor or change colours. Line
/// breaks and tabs become spaces; the line separators of Unicode become escape sequences.
pub fn printable(line: &str) -> String {
    escaped(line, &[])
}

/// Replaces the control characters of a text like [`printable`], but leaves its lines and tabs.
/// JSON stays the same value.
pub fn printable_lines(text: &str) -> String {
    escaped(text, &['\n', '\t'])
}

/// Replaces the control characters of log lines like [`printable_lines`], but also leaves the
/// escape character: the formatter of the lines adds colours, and escapes this character in texts.
pub fn printable_coloured(text: &str) -> String {
    escaped(text, &['\n', '\t', '\x1b'])
}

fn escaped(text: &str, allowed: &[char]) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            c if allowed.contains(&c) => shown.push(c),
            '\n' | '\t' | '\r' => shown.push(' '),
            // Writing to a string never fails.
            c if is_control(c) => _ = write!(shown, "\\u{:04x}", u32::from(c)),
            c => shown.push(c),
        }
    }
    shown
}

/// A value is secret if its name contains one of `PARTS`, or is one of `NAMES`.
const PARTS: [&str; 13] = [
    "auth",
    "token",
    "secret",
    "password",
    "passwd",
    "session",
    "signature",
    "api-key",
    "api_key",
    "apikey",
    "csrf",
    "credential",
    "cookie",
];
const NAMES: [&str; 2] = ["key", "sig"];

/// Text in place of a secret.
pub const HIDDEN: &str = "***";

/// Replaces secrets in the URLs of `text` by `***`: passwords, and the values of parameters such as
/// `token`, also in fragments. In URLs of web servers, a user name without a password is also
/// replaced, because it may be a token. `text` is a URL, or a sentence with URLs.
pub fn without_secrets(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("://") {
        let (before, after) = rest.split_at(at + 3);
        shown.push_str(before);
        let end = after.find(|c: char| c.is_whitespace() || "`\"<>".contains(c));
        let (url, more) = after.split_at(end.unwrap_or(after.len()));
        let web = ["http://", "https://"]
            .iter()
            .any(|scheme| before.ends_with(scheme));
        append_hidden(url, web, &mut shown);
        rest = more;
    }
    shown.push_str(rest);
    shown
}

/// Replaces the secrets in one URL of a web server, as [`without_secrets`] does. The URL may be
/// relative, or invalid and contain spaces.
pub fn url_without_secrets(url: &str) -> String {
    let scheme = url
        .find("://")
        .filter(|at| !url[..*at].contains(['/', '?', '#']));
    let (scheme, rest) = url.split_at(scheme.map_or(0, |at| at + 3));
    let mut shown = scheme.to_owned();
    append_hidden(rest, true, &mut shown);
    shown
}

/// Appends `url`, which begins after `://`, without its secrets.
fn append_hidden(url: &str, web: bool, shown: &mut String) {
    let authority = url.split(['/', '?', '#']).next().unwrap_or_default();
    // A password may contain a slash, although the URL is then invalid.
    let port = authority.rsplit_once(':').map_or("", |(_, port)| port);
    let is_cut = !authority.contains('@') && !port.bytes().all(|byte| byte.is_ascii_digit());
    let users = if is_cut && !authority.ends_with(']') {
        url
    } else {
        authority
    };
    let rest = match users.rfind('@') {
        None => url,
        Some(at) => {
            match url[..at].split_once(':') {
                // Some services expect a token as the user name, with an empty password.
                Some((_, "")) if web => shown.push_str(HIDDEN),
                Some((user, _)) => {
                    shown.push_str(user);
                    shown.push_str(":***");
                }
                None if web => shown.push_str(HIDDEN),
                None => shown.push_str(&url[..at]),
            }
            &url[at..]
        }
    };
    let Some(start) = rest.find(['?', '#']) else {
        return shown.push_str(rest);
    };
    shown.push_str(&rest[..start]);
    for pair in rest[start..].split_inclusive('&') {
        append_pair(pair, shown);
    }
}

/// Appends a parameter of a URL, without a secret value. The parameter may begin with `?` or `#`,
/// and end with `&`. A fragment may follow its value: servers return tokens there (RFC 6749,
/// section 4.2.2).
fn append_pair(mut pair: &str, shown: &mut String) {
    while let Some((name, value)) = pair.split_once('=') {
        shown.push_str(name);
        shown.push('=');
        let name = name.rsplit(['?', '#']).next().unwrap_or(name);
        if is_secret(name) {
            shown.push_str(HIDDEN);
            return shown.push_str(if value.ends_with('&') { "&" } else { "" });
        }
        let end = value.find('#').unwrap_or(value.len());
        shown.push_str(&value[..end]);
        pair = &value[end..];
    }
    shown.push_str(pair);
}

/// Returns whether the value of a header field, a parameter or a field of a form is secret,
/// according to its name.
pub fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    NAMES.contains(&name.as_str()) || PARTS.iter().any(|part| name.contains(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_is_not_commanded_from_outside() {
        let text = "a\x1b[2Jb\nc\u{202e}d\te\u{9b}\r";
        assert_eq!(printable(text), "a\\u001b[2Jb c\\u202ed e\\u009b ");
        let lines = "a\\u001b[2Jb\nc\\u202ed\te\\u009b ";
        assert_eq!(printable_lines(text), lines);
        let coloured = "a\x1b[2Jb\nc\\u202ed\te\\u009b ";
        assert_eq!(printable_coloured(text), coloured);
        let breaks = "a\u{2028}b\u{2029}c\u{85}d";
        for shown in [
            printable(breaks),
            printable_lines(breaks),
            printable_coloured(breaks),
        ] {
            assert_eq!(shown, "a\\u2028b\\u2029c\\u0085d");
        }
        for safe in ["", "ü → ✓ 日本"] {
            assert_eq!(printable(safe), safe);
        }
    }

    #[test]
    fn secrets_of_urls_are_hidden() {
        for (text, shown) in [
            ("https://u:hush@a.example/x", "https://u:***@a.example/x"),
            ("https://u:p@hush@a.example/x", "https://u:***@a.example/x"),
            ("postgres://u:hu/sh@db/ct", "postgres://u:***@db/ct"),
            ("https://hush@a.example/x", "https://***@a.example/x"),
            ("https://hush:@a.example/x", "https://***@a.example/x"),
            ("mysql://lucarne@db/ct", "mysql://lucarne@db/ct"),
            (
                "https://a.example/x?a=1&access_token=hush&sig=hush",
                "https://a.example/x?a=1&access_token=***&sig=***",
            ),
            (
                "https://a.example/x#access_token=hush&a=1",
                "https://a.example/x#access_token=***&a=1",
            ),
            (
                "https://a.example/x?a=1#key=hush&key=hush",
                "https://a.example/x?a=1#key=***&key=***",
            ),
            (
                "reading `https://u:hush@a:1/` and http://b.example: refused",
                "reading `https://u:***@a:1/` and http://b.example: refused",
            ),
        ] {
            assert_eq!(without_secrets(text), shown);
        }
    }

    #[test]
    fn secrets_of_one_invalid_url_are_hidden() {
        for (url, shown) in [
            ("https://u:hu sh@a b/x", "https://u:***@a b/x"),
            ("https://hu sh@a b/x", "https://***@a b/x"),
            ("u:hush@a.example/x", "u:***@a.example/x"),
            ("https://a b/x", "https://a b/x"),
            (
                "/x?token=hush&next=https://b/y",
                "/x?token=***&next=https://b/y",
            ),
            ("", ""),
        ] {
            assert_eq!(url_without_secrets(url), shown);
        }
    }

    #[test]
    fn other_texts_stay() {
        for text in [
            "roots.pem",
            "someone@example.com",
            "https://a.example:8080/@scope/x?y=1",
            "https://[::1]/@x",
            "http://[::1]:80/",
            "env:KEY",
            "://",
            "",
        ] {
            assert_eq!(without_secrets(text), text);
        }
    }
}
