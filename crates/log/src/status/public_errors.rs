//! The public form of a log's errors, without locations. The server's log has the complete errors.

/// The locations of a log, which are not public, and their public names.
pub(crate) struct PrivateLocations {
    /// Locations that contain a slash or a colon.
    full: Vec<(String, &'static str)>,
    /// Names of files or directories in the working directory.
    bare: Vec<(String, &'static str)>,
}

impl PrivateLocations {
    /// Creates the list of locations, the longest location first, because a location may contain
    /// another location.
    pub(crate) fn new(places: impl IntoIterator<Item = (String, &'static str)>) -> Self {
        let mut places: Vec<_> = places.into_iter().collect();
        places.retain(|(place, _)| !place.is_empty());
        places.sort_by_key(|(place, _)| std::cmp::Reverse(place.len()));
        let (full, bare) = places
            .into_iter()
            .partition(|(place, _)| place.contains(['/', ':']));
        PrivateLocations { full, bare }
    }

    /// Returns `text` with public names for the known locations. Also removes all other paths,
    /// addresses with a user, and URLs except those of checkpoints.
    pub(crate) fn hide(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (place, name) in self.full.iter().chain(&self.bare) {
            // "the lock (lock.sqlite)" becomes "the lock".
            let noun = name.strip_prefix("the ").unwrap_or(name);
            text = text.replace(&format!("{noun} ({place})"), noun);
        }
        for (place, name) in &self.full {
            text = text.replace(place.as_str(), name);
        }
        let words = text.split_inclusive(char::is_whitespace);
        words.map(|word| self.hide_word(word)).collect()
    }

    fn hide_word(&self, word: &str) -> String {
        let opened = word.trim_start_matches(OPENING);
        let core = opened.trim_end_matches(|c: char| c.is_whitespace() || CLOSING.contains(&c));
        let (before, after) = (&word[..word.len() - opened.len()], &opened[core.len()..]);
        if let Some(named) = self.bare.iter().find_map(|bare| in_words(core, bare)) {
            return format!("{before}{named}{after}");
        }
        if is_private(core) {
            format!("{before}…{after}")
        } else {
            word.to_owned()
        }
    }
}

/// Replaces a bare name at the start of a path, or a bare file name. A name without an extension
/// may be any word, and stays.
fn in_words(path: &str, (bare, name): &(String, &str)) -> Option<String> {
    let rest = path.strip_prefix(bare.as_str())?;
    let is_path = rest.starts_with('/') || rest.is_empty() && bare.contains('.');
    is_path.then(|| format!("{name}{rest}"))
}

const OPENING: [char; 5] = ['(', '`', '\'', '"', '['];
const CLOSING: [char; 10] = [')', '`', '\'', '"', ']', ',', '.', ';', ':', '…'];

fn is_private(word: &str) -> bool {
    let is_relative = word.starts_with("./") || word.starts_with("../");
    let is_absolute = word.starts_with('/') && word.len() > 1 && word != "/health";
    let is_path = is_relative || is_absolute && !is_hash(word);
    let is_address = word.contains('@');
    // The locations of a log's external checkpoints are public.
    let is_url =
        word.contains("://") && !(word.starts_with("http") && word.ends_with("/checkpoint"));
    let is_host = word.rsplit_once(':').is_some_and(|(host, port)| {
        let is_port = port.len() > 1 && port.bytes().all(|byte| byte.is_ascii_digit());
        is_port && (host.contains('.') || host == "localhost") && !host.contains('/')
    });
    is_host || is_path || is_address || is_url
}

/// Returns whether a word is a log ID or a hash in base64, which may begin with a slash.
fn is_hash(word: &str) -> bool {
    let digits = word.strip_suffix('=').unwrap_or_default();
    let is_digit = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/');
    digits.len() == 43 && digits.bytes().all(is_digit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_become_words() {
        let places = PrivateLocations::new([
            ("/srv/lucarne/a".to_owned(), "the storage"),
            (
                "s3://bucket/a/ at http://10.0.0.1:9000".to_owned(),
                "the store",
            ),
            ("mysql://ctlog@db.internal:3306/ct".to_owned(), "the lock"),
            ("data".to_owned(), "the storage"),
            ("lock.sqlite".to_owned(), "the lock"),
        ]);
        for (text, public) in [
            ("/srv/lucarne/a: 12 MiB free", "the storage: 12 MiB free"),
            (
                "cannot write /srv/lucarne/a/.lucarne/journal/0001: no space",
                "cannot write the storage/.lucarne/journal/0001: no space",
            ),
            (
                "s3://bucket/a/ at http://10.0.0.1:9000 does not answer",
                "the store does not answer",
            ),
            (
                "mysql://ctlog@db.internal:3306/ct: cannot load",
                "the lock: cannot load",
            ),
            ("data: its data are old", "data: its data are old"),
            (
                "cannot write data/.lucarne/journal/0001: no space",
                "cannot write the storage/.lucarne/journal/0001: no space",
            ),
            (
                "lock.sqlite: cannot load (lock.sqlite)",
                "the lock: cannot load (the lock)",
            ),
            (
                "the lock (lock.sqlite) has signed 5 entries, and neither journal nor storage \
                 (/srv/lucarne/a) lead there",
                "the lock has signed 5 entries, and neither journal nor storage lead there",
            ),
            (
                "the 5 entries that the lock (mysql://ctlog@db.internal:3306/ct) has signed",
                "the 5 entries that the lock has signed",
            ),
            (
                "the storage (data) does not exist",
                "the storage does not exist",
            ),
            (
                "Access denied for user 'ctlog'@'10.0.0.5' (using `/etc/lucarne/key`)",
                "Access denied for user '…' (using `…`)",
            ),
            (
                "following 10.0.0.3:8443, at 12:30:00Z",
                "following …, at 12:30:00Z",
            ),
            (
                "has no log with ID /0z+Q7jMpASqCz+ae7jWS44U1WxXG+mdjvR/2Bl4wm8= (ill)",
                "has no log with ID /0z+Q7jMpASqCz+ae7jWS44U1WxXG+mdjvR/2Bl4wm8= (ill)",
            ),
            ("postgres://other/db, tile/data/000", "…, tile/data/000"),
            ("no response (http://10.0.0.1:9000/a/b)", "no response (…)"),
            (
                "its /health says how 1/2 of https://mirror.example/a/checkpoint is",
                "its /health says how 1/2 of https://mirror.example/a/checkpoint is",
            ),
        ] {
            assert_eq!(places.hide(text), public);
        }
    }
}
