//! Texts for people: characters in the names of certificates that change the display of the text
//! around them, and numbers of things.

/// Returns whether `c` could end a line, control a terminal, or change the direction of the text
/// around it: a control character, a line or paragraph separator of Unicode, or a mark,
/// embedding, override or isolate of the bidirectional algorithm.
///
/// Some clients split lines at U+0085, U+2028 and U+2029, too. All these characters are in the
/// Basic Multilingual Plane, so that `\uXXXX` can escape each of them in JSON.
pub fn is_control(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{61c}'
                | '\u{200e}'
                | '\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2066}'..='\u{2069}'
        )
}

/// Formats a number of things: `1 root`, `2 roots`. `noun` is the singular.
pub fn counted(number: impl TryInto<u64>, noun: &str) -> String {
    let number = number.try_into().unwrap_or(u64::MAX);
    match noun.strip_suffix('y') {
        _ if number == 1 => format!("1 {noun}"),
        Some(stem) if !stem.ends_with('a') => format!("{number} {stem}ies"),
        _ => format!("{number} {noun}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_thing_is_singular() {
        assert_eq!(counted(0_u64, "root"), "0 roots");
        assert_eq!(counted(1_usize, "entry"), "1 entry");
        assert_eq!(counted(2_u64, "entry"), "2 entries");
        assert_eq!(counted(2_u64, "day"), "2 days");
    }

    #[test]
    fn separators_and_directions_are_control_characters() {
        let unsafe_ones = "\0\n\x1b\x7f\u{85}\u{9b}\u{61c}\u{200e}\u{200f}\u{2028}\u{2029}\u{202a}\u{202e}\u{2066}\u{2069}";
        for c in unsafe_ones.chars() {
            assert!(is_control(c), "{c:?}");
            assert!(u32::from(c) < 0x1_0000);
        }
        for c in "aü→✓日\u{200d}\u{202f}\u{a0}".chars() {
            assert!(!is_control(c), "{c:?}");
        }
    }
}
