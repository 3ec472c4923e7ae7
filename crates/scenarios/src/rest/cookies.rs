//! Cookies of one user (RFC 6265).

use std::ops::RangeInclusive;

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use url::{Host, Url};

use lucarne_load::http::Headers;

/// Limit of the stored cookies; the oldest cookie is removed first.
const MOST: usize = 300;

/// Limit of a cookie's name and value in bytes.
const LONGEST: usize = 4096;

/// Cookies of one user, the oldest first.
#[derive(Clone, Debug, Default)]
pub(super) struct Jar(Vec<Cookie>);

#[derive(Clone, Debug)]
struct Cookie {
    name: String,
    value: String,
    /// Host, or domain with its subdomains.
    domain: String,
    subdomains: bool,
    path: String,
    secure: bool,
    expires: Option<Timestamp>,
}

impl Jar {
    /// Stores the cookies of a response from `url`.
    pub(super) fn store(&mut self, url: &Url, headers: &Headers) {
        for line in headers.all("set-cookie") {
            if let Some(cookie) = Cookie::parse(line, url) {
                self.0.retain(|known| !known.is_replaced_by(&cookie));
                self.0.push(cookie);
            }
        }
        let now = Timestamp::now();
        self.0
            .retain(|cookie| cookie.expires.is_none_or(|end| end > now));
        let surplus = self.0.len().saturating_sub(MOST);
        self.0.drain(..surplus);
    }

    /// Writes the value of `cookie` for a request of `url`; an empty text without cookies.
    pub(super) fn write(&self, url: &Url, out: &mut String) {
        out.clear();
        let now = Timestamp::now();
        let mut matching: Vec<_> = self.0.iter().filter(|it| it.matches(url, now)).collect();
        // Section 5.4: cookies with longer paths come first.
        matching.sort_by_key(|cookie| std::cmp::Reverse(cookie.path.len()));
        for cookie in matching {
            let separator = if out.is_empty() { "" } else { "; " };
            out.extend([separator, &cookie.name, "=", &cookie.value]);
        }
    }
}

impl Cookie {
    /// Parses `Set-Cookie` (section 5.2). Returns `None` if the cookie must be ignored.
    fn parse(line: &str, url: &Url) -> Option<Self> {
        let mut parts = line.split(';');
        let (name, value) = parts.next()?.split_once('=')?;
        let (name, value) = (name.trim(), value.trim());
        if name.is_empty() || name.len() + value.len() > LONGEST {
            return None;
        }
        let mut cookie = Self {
            name: name.to_owned(),
            value: value.to_owned(),
            domain: url.host_str()?.to_owned(),
            subdomains: false,
            path: default_path(url.path()),
            secure: false,
            expires: None,
        };
        let mut has_age = false;
        for part in parts {
            let (key, value) = part.split_once('=').unwrap_or((part, ""));
            let value = value.trim();
            match key.trim().to_ascii_lowercase().as_str() {
                "domain" => cookie.set_domain(value, url)?,
                "path" if value.starts_with('/') => value.clone_into(&mut cookie.path),
                "secure" => cookie.secure = true,
                "max-age" => {
                    if let Some(seconds) = seconds(value) {
                        let end = Timestamp::now().as_second().saturating_add(seconds);
                        // A time that no clock can show never comes.
                        cookie.expires = match seconds {
                            0 => Some(Timestamp::UNIX_EPOCH),
                            _ => Timestamp::from_second(end).ok(),
                        };
                        has_age = true;
                    }
                }
                "expires" if !has_age => cookie.expires = date(value).or(cookie.expires),
                _ => {}
            }
        }
        Some(cookie)
    }

    /// Applies the attribute `Domain`. Returns `None` if it does not cover the host.
    fn set_domain(&mut self, domain: &str, url: &Url) -> Option<()> {
        let domain = domain.trim_start_matches('.').to_ascii_lowercase();
        if domain.is_empty() || domain == self.domain {
            self.subdomains = !domain.is_empty() && matches!(url.host(), Some(Host::Domain(_)));
            return Some(());
        }
        // A domain without a dot is a top-level domain.
        let covers = matches!(url.host(), Some(Host::Domain(_)))
            && domain.contains('.')
            && is_subdomain(&self.domain, &domain);
        (self.domain, self.subdomains) = (domain, true);
        covers.then_some(())
    }

    fn is_replaced_by(&self, other: &Self) -> bool {
        self.name == other.name && self.domain == other.domain && self.path == other.path
    }

    fn matches(&self, url: &Url, now: Timestamp) -> bool {
        let host = url.host_str().unwrap_or_default();
        let in_domain = host == self.domain || self.subdomains && is_subdomain(host, &self.domain);
        let rest = url.path().strip_prefix(self.path.as_str());
        let in_path = rest.is_some_and(|rest| {
            rest.is_empty() || rest.starts_with('/') || self.path.ends_with('/')
        });
        let secure = !self.secure || url.scheme() == "https";
        in_domain && in_path && secure && self.expires.is_none_or(|end| end > now)
    }
}

fn is_subdomain(host: &str, domain: &str) -> bool {
    let rest = host.strip_suffix(domain);
    rest.is_some_and(|rest| rest.ends_with('.'))
}

/// Parses `Max-Age` (section 5.2.2): 0 if the cookie has expired, `None` if the attribute must be
/// ignored.
fn seconds(text: &str) -> Option<i64> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|it| it.is_ascii_digit()) {
        return None;
    }
    // A number with too many digits is a time that never comes.
    let seconds = digits.parse().unwrap_or(i64::MAX);
    Some(if text.starts_with('-') { 0 } else { seconds })
}

/// Parses a date as browsers do (section 5.1.1): the parts may be in any order, and further texts
/// are ignored.
fn date(text: &str) -> Option<Timestamp> {
    let (mut time, mut day, mut month, mut year) = (None, None, None, None);
    let is_delimiter = |c: char| matches!(c, '\t' | ' '..='/' | ';'..='@' | '['..='`' | '{'..='~');
    for part in text.split(is_delimiter) {
        if let (None, Some(found)) = (time, clock(part)) {
            time = Some(found);
        } else if let (None, Some(found)) = (day, number(part, 1..=2)) {
            day = Some(found);
        } else if let (None, Some(found)) = (month, month_of(part)) {
            month = Some(found);
        } else if let (None, Some(found)) = (year, number(part, 2..=4)) {
            year = Some(found);
        }
    }
    let year = match year? {
        year @ 70..=99 => year + 1900,
        year @ 0..=69 => year + 2000,
        year => year,
    };
    let (day, (hour, minute, second)) = (i8::try_from(day?).ok()?, time?);
    let date = DateTime::new(year, month?, day, hour, minute, second, 0);
    let date = date.ok().filter(|_| year >= 1601)?;
    Some(date.to_zoned(TimeZone::UTC).ok()?.timestamp())
}

/// Parses `hour:minute:second`.
fn clock(text: &str) -> Option<(i8, i8, i8)> {
    let mut parts = text.splitn(3, ':').map(|part| number(part, 1..=2));
    let mut next = || i8::try_from(parts.next()??).ok();
    Some((next()?, next()?, next()?))
}

/// Parses the number at the beginning of a text, if it has an allowed count of digits.
fn number(text: &str, digits: RangeInclusive<usize>) -> Option<i16> {
    let end = text.find(|c: char| !c.is_ascii_digit());
    let end = end.unwrap_or(text.len());
    digits.contains(&end).then(|| text[..end].parse().ok())?
}

/// Returns the number of the month whose name begins with the first three letters of a text.
fn month_of(text: &str) -> Option<i8> {
    const MONTHS: &str = "janfebmaraprmayjunjulaugsepoctnovdec";
    let name = text.get(..3)?.to_ascii_lowercase();
    let mut months = (1..).zip(MONTHS.as_bytes().chunks(3));
    months.find_map(|(number, month)| (month == name.as_bytes()).then_some(number))
}

/// Returns the path of a cookie without `Path` (section 5.1.4).
fn default_path(path: &str) -> String {
    match path.rfind('/') {
        None | Some(0) => "/".to_owned(),
        Some(end) => path[..end].to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Stores these cookies of a response, and returns those for a request.
    fn sent(response: &str, cookies: &[&str], request: &str) -> String {
        let mut jar = Jar::default();
        let lines = cookies.iter().map(|it| format!("set-cookie: {it}\r\n"));
        let headers = Headers::of_lines(&lines.collect::<String>());
        jar.store(&response.parse().unwrap(), &headers);
        let mut out = String::new();
        jar.write(&request.parse().unwrap(), &mut out);
        out
    }

    #[test]
    fn cookies_return_to_their_host_and_path() {
        let from = "https://a.example.test/shop/login";
        let own = |cookies: &[&str], request| sent(from, cookies, request);
        for (request, expected) in [
            ("https://a.example.test/shop/cart", "s=1"),
            ("https://a.example.test/shop", "s=1"),
            ("https://a.example.test/shopping", ""),
            ("https://a.example.test/", ""),
            ("https://b.example.test/shop/cart", ""),
        ] {
            assert_eq!(own(&["s=1"], request), expected, "{request}");
        }
        let wide = ["s=1; Domain=.Example.test; Path=/", "t=2; Path=/shop/cart"];
        assert_eq!(own(&wide, "https://b.example.test/x"), "s=1");
        assert_eq!(own(&wide, "https://a.example.test/shop/cart"), "t=2; s=1");
        assert_eq!(
            own(&["s=1; Domain=test; Path=/"], "https://a.example.test/"),
            ""
        );
        assert_eq!(
            own(&["s=1; Domain=other.test"], "https://other.test/shop"),
            ""
        );
        assert_eq!(own(&["s=1; secure; path=/"], "http://a.example.test/"), "");
    }

    #[test]
    fn later_cookies_replace_and_remove() {
        let from = "https://a.test/";
        let own = |cookies: &[&str]| sent(from, cookies, from);
        assert_eq!(own(&["s=1", "t=3", "s=2"]), "t=3; s=2");
        assert_eq!(own(&["s=1", "s=; Max-Age=0"]), "");
        assert_eq!(
            own(&["s=1", "s=; Expires=Thu, 01-Jan-1970 00:00:00 GMT"]),
            ""
        );
        assert_eq!(own(&["s=1; Expires=Thu, 01 Jan 2970 00:00:00 GMT"]), "s=1");
        assert_eq!(
            own(&["s=1; Max-Age=60; Expires=Thu, 01 Jan 1970 00:00:00 GMT"]),
            "s=1"
        );
        assert_eq!(own(&["no cookie", "=1", "s=a=b; HttpOnly"]), "s=a=b");
    }

    #[test]
    fn ages_that_are_no_numbers_are_ignored() {
        let from = "https://a.test/";
        for (age, expected) in [
            ("60", "s=1"),
            ("0", ""),
            ("-1", ""),
            ("-99999999999999", ""),
            ("99999999999999999999", "s=1"),
            ("abc", "s=1"),
            ("+5", "s=1"),
            ("1.5", "s=1"),
            ("", "s=1"),
        ] {
            let cookie = format!("s=1; Max-Age={age}");
            assert_eq!(sent(from, &[cookie.as_str()], from), expected, "{age}");
        }
        let both = "s=1; Max-Age=abc; Expires=Thu, 01 Jan 1970 00:00:00 GMT";
        assert_eq!(sent(from, &[both], from), "");
    }

    #[test]
    fn dates_have_the_forms_that_browsers_accept() {
        let second = |text: &str| date(text).map(Timestamp::as_second);
        for text in [
            "Sun, 06 Nov 1994 08:49:37 GMT",
            "Sunday, 06-Nov-94 08:49:37 GMT",
            "Sun Nov  6 08:49:37 1994",
            "Mon, 6 Nov 1994 8:49:37 UTC",
            "1994 November 06 08:49:37",
        ] {
            assert_eq!(second(text), Some(784_111_777), "{text}");
        }
        assert_eq!(
            second("Thu, 01-Jan-70 00:00:01 GMT"),
            Some(1),
            "two digits of the year"
        );
        for text in [
            "",
            "tomorrow",
            "06 Nov 1994",
            "31 Feb 1994 00:00:00",
            "06 Nov 1994 25:00:00",
            "06 Nov 1500 00:00:00",
        ] {
            assert_eq!(second(text), None, "{text}");
        }
    }

    #[test]
    fn the_number_of_cookies_is_bounded() {
        let cookies: Vec<_> = (0..2 * MOST).map(|n| format!("c{n}=1")).collect();
        let cookies: Vec<_> = cookies.iter().map(String::as_str).collect();
        let sent = sent("https://a.test/", &cookies, "https://a.test/");
        assert_eq!(sent.split("; ").count(), MOST);
        assert!(!sent.contains("c1=") && sent.contains("c599="), "{sent}");
    }
}
