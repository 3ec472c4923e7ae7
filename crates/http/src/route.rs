//! The mapping from a URL to a log: the longest prefix wins, and the rest is matched by hand.
//!
//! There is no web framework here. The prefixes are known only from the configuration, and each
//! stands for one or both of two small APIs (static-ct-api, "Submission APIs" and "Monitoring
//! APIs"). A request for a tile has a budget of ten microseconds, including system calls: a few
//! calls of `starts_with` fit into this budget, and are easy to review.
//!
//! Paths are compared byte by byte and never decoded: no path of either API needs escapes, and
//! nothing can be decoded twice. No part of a path ever reaches the storage: tiles and issuers are
//! parsed into numbers.

use std::fmt;

use http::Uri;
use lucarne_ct::Fingerprint;
use lucarne_tlog::{Level, Tile, TilePathError};

use crate::error_page;
use crate::rfc6962::Rfc6962Read;

/// The APIs of a log that a prefix stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Roles {
    pub(crate) submission: bool,
    pub(crate) monitoring: bool,
}

impl Roles {
    pub(crate) const SUBMISSION: Roles = Roles {
        submission: true,
        monitoring: false,
    };
    pub(crate) const MONITORING: Roles = Roles {
        submission: false,
        monitoring: true,
    };

    pub(crate) fn or(self, other: Roles) -> Roles {
        Roles {
            submission: self.submission || other.submission,
            monitoring: self.monitoring || other.monitoring,
        }
    }
}

/// The reasons why the prefixes of the logs conflict.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PrefixError {
    /// The prefix is not a usable URL.
    #[error("{url}: {problem}; expected a URL such as https://ct.example.org/2026h1/")]
    Url {
        /// The prefix as configured.
        url: String,
        /// The reason.
        problem: String,
    },
    /// Two logs, or a log and the witness, have the same prefix.
    #[error("{prefix} is a prefix of both {first} and {second}: each needs its own")]
    Taken {
        /// Host and path.
        prefix: String,
        /// Short name of one log.
        first: String,
        /// Short name of the other log.
        second: String,
    },
}

/// Host (with port, lower case) and path (with both slashes) of a prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Prefix {
    pub(crate) host: String,
    pub(crate) path: String,
}

impl Prefix {
    pub(crate) fn parse(url: &str) -> Result<Self, PrefixError> {
        let wrong = |problem: &str| PrefixError::Url {
            url: url.to_owned(),
            problem: problem.to_owned(),
        };
        let uri: Uri = url.parse().map_err(|_| wrong("not a URL"))?;
        if !matches!(uri.scheme_str(), Some("http" | "https")) {
            return Err(wrong("neither http:// nor https://"));
        }
        let host = uri.authority().ok_or_else(|| wrong("no host"))?.as_str();
        if uri.query().is_some() || host.contains('@') {
            return Err(wrong(
                "a prefix has only a host, an optional port, and a path",
            ));
        }
        let mut path = uri.path().to_owned();
        if !path.ends_with('/') {
            path.push('/');
        }
        Ok(Prefix {
            host: host.to_ascii_lowercase(),
            path,
        })
    }
}

/// The prefixes of all logs, longest first.
#[derive(Debug, Default)]
pub(crate) struct Routes(Vec<Route>);

#[derive(Debug)]
struct Route {
    path: Box<str>,
    targets: Vec<Target>,
}

#[derive(Debug)]
struct Target {
    host: Box<str>,
    log: usize,
    roles: Roles,
}

/// A matched log, the roles of its prefix, and the rest of the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RouteMatch<'p> {
    pub(crate) log: usize,
    pub(crate) roles: Roles,
    pub(crate) rest: &'p str,
}

impl Routes {
    /// Adds a prefix of log number `log`; `name` returns a log's name for the error.
    pub(crate) fn add(
        &mut self,
        prefix: Prefix,
        roles: Roles,
        log: usize,
        name: impl Fn(usize) -> String,
    ) -> Result<(), PrefixError> {
        let position = match self.0.iter().position(|r| *r.path == prefix.path) {
            Some(position) => position,
            None => {
                let longer = |r: &Route| r.path.len() >= prefix.path.len();
                let position = self.0.iter().take_while(|r| longer(r)).count();
                let path = prefix.path.clone().into();
                let targets = Vec::new();
                self.0.insert(position, Route { path, targets });
                position
            }
        };
        let targets = &mut self.0[position].targets;
        if let Some(other) = targets
            .iter()
            .find(|t| *t.host == prefix.host && t.log != log)
        {
            return Err(PrefixError::Taken {
                prefix: format!("{}{}", prefix.host, prefix.path),
                first: name(other.log),
                second: name(log),
            });
        }
        targets.push(Target {
            host: prefix.host.into(),
            log,
            roles,
        });
        Ok(())
    }

    /// Finds the log of a path. The host only matters if two logs share a path: behind a proxy, the
    /// host of a request often differs from the host that clients see.
    pub(crate) fn find<'p>(&self, path: &'p str, host: Option<&str>) -> Option<RouteMatch<'p>> {
        let (route, rest) = self
            .0
            .iter()
            .find_map(|route| Some((route, path.strip_prefix(&*route.path)?)))?;
        let first = route.targets.first()?;
        let log = if route.targets.iter().all(|t| t.log == first.log) {
            first.log
        } else {
            let host = host?;
            let same = |t: &&Target| t.host.eq_ignore_ascii_case(host);
            route.targets.iter().find(same)?.log
        };
        let shared = route.targets.iter().any(|t| t.log != log);
        let roles = route
            .targets
            .iter()
            .filter(|t| t.log == log)
            .filter(|t| !shared || host.is_some_and(|h| t.host.eq_ignore_ascii_case(h)))
            .map(|t| t.roles)
            .reduce(Roles::or)?;
        Some(RouteMatch { log, roles, rest })
    }
}

/// The resource of a request, without borrowed data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Resource {
    AddChain,
    AddPreChain,
    /// A check of a chain without logging it.
    CheckChain,
    GetRoots,
    Checkpoint,
    Tile(Tile),
    /// The names tile of a data tile.
    Names(Tile),
    Issuer(Fingerprint),
    LogJson,
    /// A read endpoint of RFC 6962, below either prefix, because clients of RFC 6962 know only one
    /// prefix of a log.
    Rfc6962(Rfc6962Read),
    /// New entries as server-sent events.
    Feed,
    /// The log's page and its files.
    Page,
    Stats,
    Style,
    Script,
    /// The page of all errors, below either prefix, because refusals link to this page.
    Errors,
    /// A submission prefix without a path: redirects to the page.
    Redirect,
    /// An unknown path under a log's prefix.
    NotFound(PathError),
}

/// The error for an unknown path under a log's prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PathError {
    Unknown,
    Tile(TilePathError),
    Issuer,
}

impl fmt::Display for PathError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PathError::Unknown => f.write_str(
                "a log has checkpoint, tile/…, issuer/…, feed and log.v3.json under its monitoring \
                 prefix, and ct/v1/add-chain, ct/v1/add-pre-chain, ct/v1/get-roots and check-chain \
                 under its submission prefix; the server has /health",
            ),
            PathError::Tile(error) => error.fmt(f),
            PathError::Issuer => {
                f.write_str("expected issuer/ and the SHA-256 of a certificate in lower-case hex")
            }
        }
    }
}

impl Resource {
    /// Parses the rest of a path after a log's prefix.
    pub(crate) fn parse(rest: &str, roles: Roles) -> Self {
        if let Some(read) = Rfc6962Read::parse(rest) {
            return Resource::Rfc6962(read);
        }
        match rest {
            error_page::PATH => return Resource::Errors,
            "page.css" => return Resource::Style,
            _ => {}
        }
        if roles.monitoring {
            match rest {
                "checkpoint" => return Resource::Checkpoint,
                "log.v3.json" => return Resource::LogJson,
                "" => return Resource::Page,
                "feed" => return Resource::Feed,
                "stats.json" => return Resource::Stats,
                "page.js" => return Resource::Script,
                _ if rest.starts_with("tile/names/") => {
                    return match Tile::parse_names(rest) {
                        Ok(data) => Resource::Names(data),
                        Err(error) => Resource::NotFound(PathError::Tile(error)),
                    };
                }
                _ if rest.starts_with("tile/") => {
                    return match Tile::parse(rest) {
                        Ok(tile) => Resource::Tile(tile),
                        Err(error) => Resource::NotFound(PathError::Tile(error)),
                    };
                }
                _ => {}
            }
            if let Some(hex) = rest.strip_prefix("issuer/") {
                return match fingerprint(hex) {
                    Some(fingerprint) => Resource::Issuer(fingerprint),
                    None => Resource::NotFound(PathError::Issuer),
                };
            }
        }
        if roles.submission {
            match rest {
                "ct/v1/add-chain" => return Resource::AddChain,
                "ct/v1/add-pre-chain" => return Resource::AddPreChain,
                "ct/v1/get-roots" => return Resource::GetRoots,
                "check-chain" => return Resource::CheckChain,
                "" => return Resource::Redirect,
                _ => {}
            }
        }
        Resource::NotFound(PathError::Unknown)
    }

    /// Returns `true` for a data tile, full or partial. Hash tiles are not compressible.
    pub(crate) fn is_data(tile: Tile) -> bool {
        tile.level() == Level::Data
    }
}

pub(crate) fn fingerprint(text: &str) -> Option<Fingerprint> {
    if text.bytes().any(|b| b.is_ascii_uppercase()) {
        return None;
    }
    let mut bytes = [0; 32];
    hex::decode_to_slice(text, &mut bytes).ok()?;
    Some(Fingerprint(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOTH: Roles = Roles {
        submission: true,
        monitoring: true,
    };

    fn routes(prefixes: &[(&str, Roles, usize)]) -> Result<Routes, PrefixError> {
        let mut routes = Routes::default();
        for (url, roles, log) in prefixes {
            routes.add(Prefix::parse(url)?, *roles, *log, |n| format!("log{n}"))?;
        }
        Ok(routes)
    }

    fn found(routes: &Routes, host: &str, path: &str) -> Option<(usize, Roles, String)> {
        let found = routes.find(path, (!host.is_empty()).then_some(host))?;
        Some((found.log, found.roles, found.rest.to_owned()))
    }

    #[test]
    fn prefixes_may_have_ports_and_plain_http() {
        let prefix = Prefix::parse("http://Log.Example:8080/2026h1").unwrap();
        assert_eq!(prefix.host, "log.example:8080");
        assert_eq!(prefix.path, "/2026h1/");
        assert_eq!(Prefix::parse("http://127.0.0.1:6962").unwrap().path, "/");
        for wrong in [
            "ct.example/x/",
            "ftp://a/b/",
            "https:///x",
            "https://a/?q",
            "https://u@a/",
        ] {
            assert!(Prefix::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_longest_prefix_wins_and_the_host_does_not_count() {
        let routes = routes(&[
            ("https://a.example/", BOTH, 0),
            ("https://a.example/2026h1/", Roles::SUBMISSION, 1),
            ("https://mon.a.example/2026h1/", Roles::MONITORING, 1),
            ("https://a.example/2026h1/deeper/", BOTH, 2),
        ])
        .unwrap();
        assert_eq!(
            found(&routes, "", "/checkpoint"),
            Some((0, BOTH, "checkpoint".into()))
        );
        let one = Some((1, BOTH, "checkpoint".into()));
        assert_eq!(found(&routes, "proxy", "/2026h1/checkpoint"), one);
        assert_eq!(found(&routes, "", "/2026h1/deeper/x").unwrap().0, 2);
        assert_eq!(found(&routes, "", "/2026h1").unwrap().0, 0);
        assert_eq!(found(&routes, "", "*"), None);
    }

    #[test]
    fn the_host_counts_where_logs_share_a_path() {
        let routes = routes(&[
            ("https://a.example/", BOTH, 0),
            ("https://sub.b.example:444/", Roles::SUBMISSION, 1),
            ("https://mon.b.example/", Roles::MONITORING, 1),
        ])
        .unwrap();
        assert_eq!(found(&routes, "A.example", "/x").unwrap().0, 0);
        let submission = Some((1, Roles::SUBMISSION, "x".into()));
        assert_eq!(found(&routes, "sub.b.example:444", "/x"), submission);
        let monitoring = Some((1, Roles::MONITORING, "x".into()));
        assert_eq!(found(&routes, "mon.b.example", "/x"), monitoring);
        assert_eq!(found(&routes, "other", "/x"), None);
        assert_eq!(found(&routes, "", "/x"), None);
    }

    #[test]
    fn two_logs_cannot_share_host_and_path() {
        let error = routes(&[
            ("https://a.example/x/", Roles::SUBMISSION, 0),
            ("https://a.example/x", Roles::MONITORING, 1),
        ]);
        let message = error.unwrap_err().to_string();
        assert!(
            message.contains("a.example/x/") && message.contains("log0 and log1"),
            "{message}"
        );
    }

    #[test]
    fn resources_by_role() {
        let tile = |path| Resource::Tile(Tile::parse(path).unwrap());
        assert_eq!(Resource::parse("checkpoint", BOTH), Resource::Checkpoint);
        assert_eq!(
            Resource::parse("tile/0/x001/234.p/5", BOTH),
            tile("tile/0/x001/234.p/5")
        );
        assert_eq!(
            Resource::parse("tile/data/000", BOTH),
            tile("tile/data/000")
        );
        let data = Tile::parse("tile/data/x001/234.p/5").unwrap();
        assert_eq!(
            Resource::parse("tile/names/x001/234.p/5", BOTH),
            Resource::Names(data)
        );
        assert_eq!(Resource::parse("ct/v1/add-chain", BOTH), Resource::AddChain);
        for roles in [BOTH, Roles::SUBMISSION, Roles::MONITORING] {
            let read = Resource::Rfc6962(Rfc6962Read::SthConsistency);
            assert_eq!(Resource::parse("ct/v1/get-sth-consistency", roles), read);
        }
        for roles in [BOTH, Roles::SUBMISSION, Roles::MONITORING] {
            assert_eq!(Resource::parse("errors", roles), Resource::Errors);
            assert_eq!(Resource::parse("page.css", roles), Resource::Style);
        }
        assert_eq!(Resource::parse("", BOTH), Resource::Page);
        assert_eq!(Resource::parse("", Roles::SUBMISSION), Resource::Redirect);
        let nothing = Resource::NotFound(PathError::Unknown);
        assert_eq!(
            Resource::parse("ct/v1/add-chain", Roles::MONITORING),
            nothing
        );
        assert_eq!(Resource::parse("checkpoint", Roles::SUBMISSION), nothing);
        assert_eq!(Resource::parse("checkpoint/", BOTH), nothing);
        assert_eq!(Resource::parse("/checkpoint", BOTH), nothing);
    }

    #[test]
    fn nothing_escapes() {
        for path in [
            "tile/../checkpoint",
            "tile/0/../../etc/passwd",
            "tile/0/000/",
            "tile/0/0%300",
            "tile/%30/000",
            "tile/0/000.p/0",
            "tile/names/../data/000",
            "tile/names/0/000",
            "tile/names/000.p/256",
            "tile/names/data/000",
            "tile/0/000.p/256",
            "tile/0/000.p/05",
            "tile/6/000",
            "tile/00/000",
            "tile/0/1",
            "tile/0/x000/001/",
            "issuer/../checkpoint",
            "issuer/00",
            "issuer/",
            ".lucarne/lock",
            "check%70oint",
        ] {
            let resource = Resource::parse(path, BOTH);
            assert!(
                matches!(resource, Resource::NotFound(_)),
                "{path}: {resource:?}"
            );
        }
        let upper = format!("issuer/{}", "AB".repeat(32));
        assert_eq!(
            Resource::parse(&upper, BOTH),
            Resource::NotFound(PathError::Issuer)
        );
        let lower = format!("issuer/{}", "ab".repeat(32));
        let fingerprint = Fingerprint([0xab; 32]);
        assert_eq!(Resource::parse(&lower, BOTH), Resource::Issuer(fingerprint));
    }
}
