//! Cookies of one user (RFC 6265).

use jiff::Timestamp;
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

    pub(super) fn clear(&mut self) {
        self.0.clear();
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
                    let seconds: i64 = value.parse().ok()?;
                    let end = Timestamp::now().as_second().saturating_add(seconds);
                    // A time that no clock can show never comes.
                    cookie.expires = Timestamp::from_second(end).ok();
                    has_age = true;
                }
                "expires" if !has_age => {
                    // Older servers write dashes within the date.
                    let date = value.replace('-', " ");
                    let date = jiff::fmt::rfc2822::parse(&date).ok();
                    cookie.expires = date.map(Timestamp::from);
                }
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
    fn the_number_of_cookies_is_bounded() {
        let cookies: Vec<_> = (0..2 * MOST).map(|n| format!("c{n}=1")).collect();
        let cookies: Vec<_> = cookies.iter().map(String::as_str).collect();
        let sent = sent("https://a.test/", &cookies, "https://a.test/");
        assert_eq!(sent.split("; ").count(), MOST);
        assert!(!sent.contains("c1=") && sent.contains("c599="), "{sent}");
    }
}
