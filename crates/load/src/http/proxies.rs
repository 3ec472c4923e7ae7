//! Proxies of the environment. Load tests do not use these proxies. A load test refuses to run if
//! the environment names a proxy for its target, because other clients would use this
//! proxy.

use std::net::IpAddr;

use lucarne_net::NoProxy;

/// Returns the environment variable with the proxy that other clients would use for `host`.
pub(super) fn named(
    secure: bool,
    host: &str,
    port: u16,
    environment: impl Fn(&str) -> Option<String>,
) -> Option<&'static str> {
    let given = |name: &&str| environment(name).is_some_and(|value| !value.is_empty());
    let names: &[&'static str] = if secure {
        &["HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"]
    } else {
        // curl ignores `HTTP_PROXY`, which a CGI request can set; other clients use it.
        &["http_proxy", "HTTP_PROXY", "ALL_PROXY", "all_proxy"]
    };
    let name = names.iter().copied().find(|name| given(name))?;
    let direct = is_loopback(host) || NoProxy::of_environment(&environment).contains(host, port);
    (!direct).then_some(name)
}

fn is_loopback(host: &str) -> bool {
    let address = host.parse::<IpAddr>();
    host.eq_ignore_ascii_case("localhost") || address.is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_that_others_reach_through_a_proxy() {
        let of = |secure, host: &str, variables: &[(&str, &str)]| {
            named(secure, host, 443, |name: &str| {
                let mut all = variables.iter();
                all.find(|(known, _)| *known == name)
                    .map(|(_, value)| (*value).to_owned())
            })
        };
        let both = ("HTTPS_PROXY", "http://p:1");
        assert_eq!(of(true, "a.example", &[]), None);
        assert_eq!(of(true, "a.example", &[("HTTPS_PROXY", "")]), None);
        assert_eq!(of(true, "a.example", &[both]), Some("HTTPS_PROXY"));
        assert_eq!(of(false, "a.example", &[both]), None);
        assert_eq!(
            of(false, "a.example", &[("all_proxy", "p")]),
            Some("all_proxy")
        );
        for host in ["localhost", "127.0.0.9", "::1"] {
            assert_eq!(of(true, host, &[both]), None, "{host}");
        }
        for (list, direct) in [("*", true), ("a.example:443", true), ("b.example", false)] {
            let found = of(true, "a.example", &[both, ("no_proxy", list)]);
            assert_eq!(found.is_none(), direct, "{list}");
        }
    }
}
