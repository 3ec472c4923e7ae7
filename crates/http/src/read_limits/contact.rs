//! The contact address in a `User-Agent` (RFC 9110, section 10.1.5).

/// Returns `true` if the text has an e-mail address or the URL of a page.
pub(super) fn has_contact(user_agent: &[u8]) -> bool {
    let mut marks = user_agent.iter().enumerate();
    marks.any(|(at, byte)| match byte {
        b'@' => is_address(&user_agent[..at], &user_agent[at + 1..]),
        b':' => is_url(&user_agent[..at], &user_agent[at + 1..]),
        _ => false,
    })
}

fn is_address(before: &[u8], after: &[u8]) -> bool {
    let local = |byte: &u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-/=?^_`{|}~.".contains(byte);
    before.last().is_some_and(local) && begins_with_host(after)
}

fn is_url(before: &[u8], after: &[u8]) -> bool {
    let is_web = |scheme: &[u8]| {
        let from = before.len().checked_sub(scheme.len());
        from.is_some_and(|from| before[from..].eq_ignore_ascii_case(scheme))
    };
    let host = after.strip_prefix(b"//");
    (is_web(b"http") || is_web(b"https")) && host.is_some_and(begins_with_host)
}

/// Returns `true` if the text begins with a name of two or more labels, and the second label is not
/// a number.
fn begins_with_host(text: &[u8]) -> bool {
    let is_letter = |byte: &u8| byte.is_ascii_alphabetic() || *byte >= 0x80;
    let in_label = |byte: &u8| is_letter(byte) || byte.is_ascii_digit() || *byte == b'-';
    let mut labels = text.split(|byte| *byte == b'.');
    let (first, second) = (labels.next(), labels.next());
    first.is_some_and(|first| !first.is_empty() && first.iter().all(in_label))
        && second.is_some_and(|second| second.first().is_some_and(is_letter))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contacts_are_addresses_and_urls() {
        for agent in [
            "monitor/1.0 (ops@example.com)",
            "monitor/1.0 (mailto:ops+ct@mail.example.com)",
            "monitor/1.0 (+https://example.com/bot)",
            "Mozilla/5.0 (compatible; bot/2.1; +HTTP://www.example.com/bot.html)",
            "x a@b.c",
            "x ops@bücher.example",
        ] {
            assert!(has_contact(agent.as_bytes()), "{agent}");
        }
        for agent in [
            "",
            "curl/8.5.0",
            "Go-http-client/1.1",
            "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0",
            "monitor@1.0",
            "@example.com",
            "ops@ example.com",
            "ops@localhost",
            "a@b.",
            "a@.b",
            "https://",
            "https://localhost/",
            "https:example.com",
            "ftp://example.com",
            "://example.com",
        ] {
            assert!(!has_contact(agent.as_bytes()), "{agent}");
        }
    }
}
