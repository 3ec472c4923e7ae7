//! Messages about unknown keys.

/// Returns the message about a key that is not in `known`. The message suggests the nearest known
/// key, or lists all known keys.
pub fn unknown(key: &str, known: &[&str]) -> String {
    match nearest(key, known) {
        Some(near) => format!("no such key; did you mean `{near}`?"),
        None if known.is_empty() => "no such key; no keys are known here".to_owned(),
        None => format!("no such key; the keys are {}", known.join(", ")),
    }
}

/// Returns the known word that is most similar to `word`, if any is similar. Letter case, `-` and
/// `_` are ignored.
pub fn nearest<'k>(word: &str, known: &[&'k str]) -> Option<&'k str> {
    let plain = |text: &str| text.to_lowercase().replace(['_', '-'], "");
    known
        .iter()
        .map(|candidate| {
            (
                strsim::normalized_damerau_levenshtein(&plain(word), &plain(candidate)),
                *candidate,
            )
        })
        .filter(|(likeness, _)| *likeness >= 0.6)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_typo_finds_the_nearest_key_and_nonsense_the_list() {
        let known = ["duration", "rate", "timeUnit"];
        assert_eq!(nearest("duraton", &known), Some("duration"));
        assert_eq!(nearest("time-unit", &known), Some("timeUnit"));
        assert_eq!(nearest("colour", &known), None);
        assert_eq!(
            unknown("colour", &known),
            "no such key; the keys are duration, rate, timeUnit"
        );
    }
}
