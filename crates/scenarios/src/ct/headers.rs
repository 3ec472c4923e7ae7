//! Checks of the headers of what a log serves.

use lucarne_load::http::Headers;

use super::checks;

/// Whoever reads logs from a web page: a server may tell scripts that they may read it
/// only when it is asked by one.
pub(crate) const ORIGIN: (&str, &str) = ("origin", "https://monitor.example");

/// A checkpoint may be cached for so many seconds: one must be published every minute.
const FRESH: u64 = 60;

/// The media type that a path is served as (static-ct-api, "Monitoring APIs").
fn expected(path: &str) -> &'static str {
    match path {
        "checkpoint" => "text/plain",
        path if path.starts_with("issuer/") => "application/pkix-cert",
        _ => "application/octet-stream",
    }
}

/// Looks at the headers of an answer of 200: each check, and what is wrong with it.
/// CORS is asked for only if the request had [`ORIGIN`].
pub(crate) fn examine(
    path: &str,
    headers: &Headers,
    cors: bool,
) -> impl Iterator<Item = (&'static str, Result<(), String>)> {
    let said = |problem: String| format!("{path}: {problem}");
    let all = [
        Some((
            checks::CONTENT_TYPE,
            content_type(path, headers).map_err(said),
        )),
        Some((
            match path {
                "checkpoint" => checks::CACHE_CONTROL,
                _ => checks::TILE_CACHE_CONTROL,
            },
            cache_control(path, headers).map_err(said),
        )),
        cors.then(|| (checks::CORS, allows_origin(headers).map_err(said))),
    ];
    all.into_iter().flatten()
}

fn content_type(path: &str, headers: &Headers) -> Result<(), String> {
    let expected = expected(path);
    let Some(found) = headers.get("content-type") else {
        return Err(format!("there is no Content-Type; it is {expected}"));
    };
    let (kind, parameters) = found.split_once(';').unwrap_or((found, ""));
    let charset = parameters.trim().to_ascii_lowercase();
    let charset = charset
        .strip_prefix("charset=")
        .map(|it| it.trim_matches('"'));
    match kind.trim().eq_ignore_ascii_case(expected) && charset.is_none_or(|it| it == "utf-8") {
        true => Ok(()),
        false => Err(format!("Content-Type: {found}, but it is {expected}")),
    }
}

fn cache_control(path: &str, headers: &Headers) -> Result<(), String> {
    let Some(found) = headers.get("cache-control") else {
        // Then caches decide by themselves, and nothing has been told them wrong.
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
        return match has("immutable") || stale {
            true => Err(format!(
                "Cache-Control: {found}, but it changes every minute"
            )),
            false => Ok(()),
        };
    }
    match has("no-store") || has("no-cache") || age == Some(0) {
        true => Err(format!("Cache-Control: {found}, but it never changes")),
        false => Ok(()),
    }
}

fn allows_origin(headers: &Headers) -> Result<(), String> {
    match headers.get("access-control-allow-origin") {
        Some(allowed) if allowed == "*" || allowed == ORIGIN.1 => Ok(()),
        Some(other) => Err(format!("Access-Control-Allow-Origin: {other}, not *")),
        None => Err("there is no Access-Control-Allow-Origin: scripts may not read it".into()),
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
