//! The paths that an asset may have.

use crate::AssetError;

/// Checks that `path` names a file below the public root. Components consist of letters, digits,
/// `-`, `_` and `.`; none is empty or starts with a dot. This excludes absolute paths, `..`, and
/// the private directory `.lucarne/`.
pub(crate) fn check(path: &str) -> Result<&str, AssetError> {
    if !path.is_empty() && path.len() <= 512 && path.split('/').all(component) {
        return Ok(path);
    }
    Err(AssetError::BadPath {
        path: path.chars().take(512).collect(),
    })
}

/// Returns the path of the private file `name`, relative to the directory of the log.
pub(crate) fn private(name: &str) -> Result<String, AssetError> {
    Ok(format!(".lucarne/{}", check(name)?))
}

fn component(name: &str) -> bool {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    !name.is_empty() && !name.starts_with('.') && name.len() <= 255 && name.bytes().all(allowed)
}

/// Returns the directory of a tile, with the slash at its end.
pub(crate) fn directory(tile_path: &str) -> Result<&str, AssetError> {
    let path = check(tile_path)?;
    Ok(&path[..path.rfind('/').map_or(0, |slash| slash + 1)])
}

/// Parses the width in the name of a partial tile's file: 1 to 255, in decimal without leading
/// zeros (static-ct-api, "Partial tiles").
pub(crate) fn width(name: &str) -> Option<u16> {
    let width = name.parse().ok().filter(|w| (1..=255).contains(w))?;
    (u16::to_string(&width) == name).then_some(width)
}

#[cfg(test)]
mod tests {
    use super::check;

    #[test]
    fn paths_of_the_static_ct_api_are_accepted() {
        for path in [
            "checkpoint",
            "log.v3.json",
            "tile/0/x001/x234/067.p/255",
            "tile/data/000",
            "issuer/0f",
        ] {
            assert_eq!(check(path).unwrap(), path);
        }
    }

    #[test]
    fn paths_that_leave_the_directory_are_refused() {
        for path in [
            "",
            "/",
            "/etc/passwd",
            "..",
            "../x",
            "tile/../../x",
            "tile//0",
            "tile/",
            "./tile",
            ".lucarne/lock",
            "tile/.hidden",
            "a\0b",
            "a\\b",
            "tile/0 0",
            "é",
        ] {
            assert!(check(path).is_err(), "{path:?}");
        }
        assert!(check(&"a".repeat(256)).is_err());
        assert!(check(&"a/".repeat(400)).is_err());
    }
}
