//! Checks of response headers of a log.

use lucarne_load::http::Headers;

use super::checks;

/// Origin of a web page that reads the log. A server may send CORS headers only to requests with an
/// origin.
pub(crate) const ORIGIN: (&str, &str) = ("origin", "https://monitor.example");

/// Longest caching of a checkpoint in seconds: a log must publish one every minute.
const FRESH: u64 = 60;

/// Returns the media type of a path (static-ct-api, "Monitoring APIs").
fn expected(path: &str) -> &'static str {
    match path {
        "checkpoint" => "text/plain",
        path if path.starts_with("issuer/") => "application/pkix-cert",
        _ => "application/octet-stream",
    }
}

/// The reasons why a header of a log is wrong.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum HeaderError {
    #[error("there is no Content-Type, expected {expected}")]
    NoContentType { expected: &'static str },
    #[error("Content-Type: {found}, expected {expected}")]
    ContentType {
        found: String,
        expected: &'static str,
    },
    /// The header permits caches to keep a checkpoint for too long.
    #[error("Cache-Control: {0}, but the file changes every minute")]
    Cached(String),
    /// The header forbids caches to keep an immutable file.
    #[error("Cache-Control: {0}, but the file never changes")]
    NotCached(String),
    #[error(
        "there is no Access-Control-Allow-Origin: scripts of other origins may not read the file"
    )]
    NoAllowedOrigin,
    #[error("Access-Control-Allow-Origin: {0}, not *")]
    AllowedOrigin(String),
}

/// Checks the headers of a response with status 200. Returns each check with its result. CORS is
/// checked only if the request had [`ORIGIN`].
pub(crate) fn examine(
    path: &str,
    headers: &Headers,
    cors: bool,
) -> impl Iterator<Item = (&'static str, Result<(), HeaderError>)> {
    let cache = match path {
        "checkpoint" => checks::CACHE_CONTROL,
        _ => checks::TILE_CACHE_CONTROL,
    };
    let all = [
        Some((checks::CONTENT_TYPE, content_type(path, headers))),
        Some((cache, cache_control(path, headers))),
        cors.then(|| (checks::CORS, allows_origin(headers))),
    ];
    all.into_iter().flatten()
}

fn content_type(path: &str, headers: &Headers) -> Result<(), HeaderError> {
    let expected = expected(path);
    let Some(found) = headers.get("content-type") else {
        return Err(HeaderError::NoContentType { expected });
    };
    let (kind, parameters) = found.split_once(';').unwrap_or((found, ""));
    let charset = parameters.trim().to_ascii_lowercase();
    let charset = charset
        .strip_prefix("charset=")
        .map(|it| it.trim_matches('"'));
    if kind.trim().eq_ignore_ascii_case(expected) && charset.is_none_or(|it| it == "utf-8") {
        Ok(())
    } else {
        let found = found.to_owned();
        Err(HeaderError::ContentType { found, expected })
    }
}

fn cache_control(path: &str, headers: &Headers) -> Result<(), HeaderError> {
    let Some(found) = headers.get("cache-control") else {
        // Without the header, caches use their own heuristics, which is allowed.
        return Ok(());
    };
    let found = found.to_ascii_lowercase();
    let directives: Vec<&str> = found.split(',').map(str::trim).collect();
    let has = |name: &str| directives.contains(&name);
    let seconds = |name: &str| {
        let value = |directive: &&str| {
            directive
                .strip_prefix(name)?
                .strip_prefix('=')?
                .parse()
                .ok()
        };
        directives.iter().find_map(value)
    };
    let age: Option<u64> = seconds("s-maxage").or_else(|| seconds("max-age"));
    if path == "checkpoint" {
        let stale = age.is_some_and(|age| age > FRESH) && !has("no-cache") && !has("no-store");
        return if has("immutable") || stale {
            Err(HeaderError::Cached(found))
        } else {
            Ok(())
        };
    }
    if has("no-store") || has("no-cache") || age == Some(0) {
        Err(HeaderError::NotCached(found))
    } else {
        Ok(())
    }
}

fn allows_origin(headers: &Headers) -> Result<(), HeaderError> {
    match headers.get("access-control-allow-origin") {
        Some(allowed) if allowed == "*" || allowed == ORIGIN.1 => Ok(()),
        Some(other) => Err(HeaderError::AllowedOrigin(other.to_owned())),
        None => Err(HeaderError::NoAllowedOrigin),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_caches_and_origins() {
        let wrong = |path: &str, lines: &str| -> Vec<&str> {
            let headers = Headers::of_lines(&lines.replace('\n', "\r\n"));
            let findings = examine(path, &headers, true);
            let wrong = findings.filter(|(_, outcome)| outcome.is_err());
            wrong.map(|(check, _)| check).collect()
        };
        let any = "access-control-allow-origin: *\n";
        let [kind, cache, cors] = [checks::CONTENT_TYPE, checks::CACHE_CONTROL, checks::CORS];
        let tile_cache = checks::TILE_CACHE_CONTROL;
        for (path, lines, expected) in [
            (
                "checkpoint",
                "content-type: text/plain; charset=utf-8\ncache-control: no-store\n",
                &[][..],
            ),
            ("checkpoint", "content-type: text/plain\n", &[]),
            (
                "checkpoint",
                "content-type: Text/Plain;charset=\"UTF-8\"\ncache-control: max-age=5\n",
                &[],
            ),
            (
                "checkpoint",
                "content-type: text/plain; charset=latin1\n",
                &[kind],
            ),
            (
                "checkpoint",
                "content-type: text/html\ncache-control: public, max-age=31536000, immutable\n",
                &[kind, cache],
            ),
            (
                "checkpoint",
                "content-type: text/plain\ncache-control: max-age=3600\n",
                &[cache],
            ),
            (
                "tile/0/000",
                "content-type: application/octet-stream\ncache-control: max-age=604800, immutable\n",
                &[],
            ),
            ("tile/data/000", "content-type: text/plain\n", &[kind]),
            ("tile/data/000", "", &[kind]),
            (
                "tile/0/000",
                "content-type: application/octet-stream\ncache-control: no-store\n",
                &[tile_cache],
            ),
            (
                "issuer/00",
                "content-type: application/pkix-cert\ncache-control: max-age=0\n",
                &[tile_cache],
            ),
            (
                "issuer/00",
                "content-type: application/octet-stream\n",
                &[kind],
            ),
        ] {
            assert_eq!(
                wrong(path, &format!("{lines}{any}")),
                expected,
                "{path} {lines}"
            );
        }
        let tile = "content-type: application/octet-stream\n";
        assert_eq!(wrong("tile/0/000", tile), [cors]);
        let other = format!("{tile}access-control-allow-origin: https://a.example\n");
        assert_eq!(wrong("tile/0/000", &other), [cors]);
        let same = format!("{tile}access-control-allow-origin: {}\n", ORIGIN.1);
        assert!(wrong("tile/0/000", &same).is_empty());
    }
}
