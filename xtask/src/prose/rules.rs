//! The rules of `STYLE.md` that a program can check.

use std::collections::HashMap;
use std::fmt;
use std::sync::LazyLock;

use super::pieces::{Kind, Piece};
use super::tokens::{self, Token};

/// The widest line of a comment or a page, in characters.
const COLUMNS: usize = 100;

/// Words of the longest cell of a table.
const CELL_WORDS: usize = 60;

/// A place to rewrite.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Finding {
    /// Number of the line in its file, from 1.
    pub(super) line: usize,
    phrase: String,
    instead: &'static str,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {}", self.line, self.phrase, self.instead)
    }
}

/// Phrases, separated by `|`, and the words to write instead.
struct Rule {
    phrases: &'static str,
    instead: &'static str,
    /// Words before a phrase that allow it.
    allowed_after: &'static [&'static str],
    /// Words after a phrase that allow it.
    allowed_before: &'static [&'static str],
    /// A phrase counts only if a comma is before it.
    after_comma: bool,
}

const fn rule(phrases: &'static str, instead: &'static str) -> Rule {
    Rule {
        phrases,
        instead,
        allowed_after: &[],
        allowed_before: &[],
        after_comma: false,
    }
}

const RULES: &[Rule] = &[
    rule(
        "answer|answers|answered|answering",
        "write `response`, `respond`",
    ),
    rule("ask|asks|asked|asking", "write `request`"),
    rule(
        "tell|tells|told|telling|say|says|said|saying",
        "write `report`, `print`, `log`, `state`",
    ),
    rule(
        "hold against|holds against|held against|held to|look at|looks at|looked at|looking at",
        "write `verify`, `check`, `compare with`",
    ),
    rule(
        "anew|once more|make again|makes again|made again",
        "write `recreate`, `rebuild`, `retry`",
    ),
    Rule {
        allowed_before: &["sure", "again"],
        ..rule(
            "make|makes|made|making",
            "write `create`, `write`, `generate`",
        )
    },
    rule(
        "put right|puts right|putting right|put back|puts back|putting back|mend|mends|mended|\
         mending|heal|heals|healed|healing",
        "write `restore`, `repair`",
    ),
    rule(
        "let by|lets by|let through|lets through|letting through",
        "write `forward`, `pass through`",
    ),
    Rule {
        allowed_after: &["there"],
        allowed_before: &["longer"],
        ..rule(
            "is no|are no|was no|were no",
            "write `invalid`, `not allowed`, `must be`",
        )
    },
    Rule {
        allowed_after: &["there"],
        ..rule(
            "is none|are none|has none of|have none of",
            "write `invalid`, `not allowed`, `must be`",
        )
    },
    rule(
        "whoever|who|whom|somebody|nobody|everybody|someone|anybody",
        "name the client, the caller, other processes",
    ),
    Rule {
        allowed_before: &["to"],
        ..rule("what|whatever", "name the thing: the entry, the tile")
    },
    Rule {
        allowed_after: &["no"],
        allowed_before: &["as"],
        ..rule("such", "write `this`, or name the thing")
    },
    rule("that which", "name the thing: the entry, the tile"),
    rule(
        "where there is|where there are|where nothing|where it is|where they are",
        "write `if`, `when`",
    ),
    rule("are due|is due", "write `expected …, found …`"),
    rule(
        "side by side|meanwhile",
        "write `at the same time`, `concurrently`",
    ),
    rule(
        "is gone|are gone|was gone|is away|are away|is not to be had|to be had",
        "write `disabled`, `unavailable`, `removed`",
    ),
    rule("of before|those before", "write `stale`, `older than`"),
    rule(
        "without end|as many as there are",
        "write `unlimited`, `bounded by N`",
    ),
    rule("shall", "write `must`, or the present tense"),
    Rule {
        after_comma: true,
        ..rule(
            "as it|as they|as there|as this|for it|for they|for there|for this",
            "write `because`, `if`, `when`, `after`",
        )
    },
];

/// Words that do not open a documentation comment.
const OPENINGS: &str = "whoever what whatever as of in on at by for from with without to upon \
    below above behind before after between beside besides beyond into under over during until \
    against among amid along across near off out through toward towards within since via \
    it its they their them he him his she her we our us you your one ones these those such who \
    whom whose which that nothing something everything anything none";

/// Words that introduce a relative clause.
const RELATIVES: &[&str] = &[
    "who", "whom", "whose", "what", "which", "that", "whoever", "whatever", "where",
];

const OPENING_INSTEAD: &str = "open with a noun or a verb, in a sentence of its own";
const HEADING_INSTEAD: &str = "write a noun phrase without a relative clause";
const WIDTH_INSTEAD: &str = "break the line at 100 columns";
const CELL_INSTEAD: &str = "write a section, and at most 60 words into the cell";
const CONTRACTION_INSTEAD: &str = "write both words";

/// The words of a phrase, and its rule.
type Phrase = (Vec<&'static str>, &'static Rule);

/// The phrases by their first word, the longest first.
static BY_FIRST: LazyLock<HashMap<&str, Vec<Phrase>>> = LazyLock::new(|| {
    let mut map: HashMap<_, Vec<Phrase>> = HashMap::new();
    for rule in RULES {
        for phrase in rule.phrases.split('|') {
            let words: Vec<&str> = phrase.split(' ').collect();
            map.entry(words[0]).or_default().push((words, rule));
        }
    }
    for phrases in map.values_mut() {
        phrases.sort_by_key(|(words, _)| std::cmp::Reverse(words.len()));
    }
    map
});

/// Returns the findings of a piece of prose.
pub(super) fn examine(piece: &Piece<'_>) -> Vec<Finding> {
    let tokens = tokens::of(piece);
    let mut findings = long_lines(piece);
    findings.extend(headings(piece));
    let opens_badly = piece.kind == Kind::Doc && tokens.first().is_some_and(is_bad_opening);
    if let (true, Some(first)) = (opens_badly, tokens.first()) {
        findings.push(finding(first, &first.word, OPENING_INSTEAD));
    }
    let mut at = usize::from(opens_badly);
    while at < tokens.len() {
        at += match phrase_at(&tokens, at) {
            Some((length, found)) => {
                findings.push(found);
                length
            }
            None => 1,
        };
    }
    findings
}

fn finding(token: &Token, phrase: &str, instead: &'static str) -> Finding {
    Finding {
        line: token.line,
        phrase: format!("\"{phrase}\""),
        instead,
    }
}

fn is_bad_opening(token: &Token) -> bool {
    OPENINGS.split_whitespace().any(|word| word == token.word)
}

/// Returns the finding that begins at this token, and the number of its words.
fn phrase_at(tokens: &[Token], at: usize) -> Option<(usize, Finding)> {
    let token = &tokens[at];
    if is_contraction(&token.word) {
        return Some((1, finding(token, &token.word, CONTRACTION_INSTEAD)));
    }
    let (words, rule) = BY_FIRST
        .get(token.word.as_str())?
        .iter()
        .find(|(words, rule)| matches(tokens, at, words, rule))?;
    Some((words.len(), finding(token, &words.join(" "), rule.instead)))
}

fn matches(tokens: &[Token], at: usize, words: &[&str], rule: &Rule) -> bool {
    let Some(found) = tokens.get(at..at + words.len()) else {
        return false;
    };
    let joined = found[1..].iter().all(|token| token.after.is_none());
    let same = found
        .iter()
        .zip(words)
        .all(|(token, word)| token.word == *word);
    let is_among = |token: Option<&Token>, allowed: &[&str]| {
        token.is_some_and(|token| allowed.contains(&token.word.as_str()))
    };
    let before = at.checked_sub(1).and_then(|before| tokens.get(before));
    let comma = !rule.after_comma || found[0].after == Some(',');
    joined
        && same
        && comma
        && !is_among(before, rule.allowed_after)
        && !is_among(tokens.get(at + words.len()), rule.allowed_before)
}

fn is_contraction(word: &str) -> bool {
    let Some((stem, end)) = word.rsplit_once('\'') else {
        return false;
    };
    match end {
        "t" => stem.ends_with('n'),
        "re" | "ll" | "ve" => true,
        "s" => ["it", "that", "there", "let", "what", "here"].contains(&stem),
        "m" => stem == "i",
        _ => false,
    }
}

/// Returns a finding for each line that is too wide, and for each row with a cell that is too long.
/// Rows of tables and lines of one or two words cannot be broken.
fn long_lines(piece: &Piece<'_>) -> Vec<Finding> {
    tokens::prose_lines(piece)
        .flatten()
        .filter_map(|line| {
            let words = |text: &str| text.split_whitespace().count();
            let (phrase, instead) = if line.text.trim_start().starts_with('|') {
                let longest = line.text.split('|').map(words).max()?;
                let phrase = format!("cell of {longest} words");
                (longest > CELL_WORDS).then_some((phrase, CELL_INSTEAD))?
            } else {
                let is_long = line.width > COLUMNS && words(line.text) > 2;
                is_long.then(|| (format!("{} columns", line.width), WIDTH_INSTEAD))?
            };
            Some(Finding {
                line: line.number,
                phrase,
                instead,
            })
        })
        .collect()
}

/// Returns a finding for each heading with a relative clause.
fn headings(piece: &Piece<'_>) -> Vec<Finding> {
    if !matches!(piece.kind, Kind::Page | Kind::Doc | Kind::ModuleDoc) {
        return Vec::new();
    }
    tokens::prose_lines(piece)
        .flatten()
        .filter_map(|line| {
            let heading = line.text.trim_start_matches('#').strip_prefix(' ')?;
            let is_heading = line.text.starts_with('#');
            let word = heading
                .split(|c: char| !c.is_alphanumeric())
                .find(|word| RELATIVES.contains(&word.to_lowercase().as_str()))?;
            is_heading.then(|| Finding {
                line: line.number,
                phrase: format!("heading with \"{}\"", word.to_lowercase()),
                instead: HEADING_INSTEAD,
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::pieces::{of_markdown, of_rust};
    use super::*;

    fn phrases(pieces: &[Piece<'_>]) -> Vec<String> {
        pieces
            .iter()
            .flat_map(examine)
            .map(|finding| finding.phrase.trim_matches('"').to_owned())
            .collect()
    }

    fn in_rust(source: &str) -> Vec<String> {
        phrases(&of_rust(source, true))
    }

    fn in_markdown(source: &str) -> Vec<String> {
        phrases(&of_markdown(source))
    }

    #[test]
    fn phrases_of_each_row_are_found() {
        let cases = [
            ("the server answered", "answered"),
            ("the client asks for it", "asks"),
            ("the log says so", "says"),
            ("tiles are held against the tree", "held against"),
            ("the file is made", "made"),
            ("the index is read anew", "anew"),
            ("the file is put right", "put right"),
            ("lets through the rest", "lets through"),
            ("the key is no executor", "is no"),
            ("a client who waits", "who"),
            ("the entry is what was read", "what"),
            ("in such a case", "such"),
            ("waits, as it is full", "as it"),
            ("refuses where there are none", "where there are"),
            ("the file is gone", "is gone"),
            ("both run meanwhile", "meanwhile"),
            ("32 bytes are due", "are due"),
            ("grows without end", "without end"),
            ("the log doesn't stop", "doesn't"),
        ];
        for (text, phrase) in cases {
            assert_eq!(in_rust(&format!("// {text}\n")), [phrase], "{text}");
            assert_eq!(in_rust(&format!("f(\"{text}\");")), [phrase], "{text}");
            assert_eq!(in_markdown(&format!("{text}\n")), [phrase], "{text}");
        }
    }

    #[test]
    fn plain_sentences_pass() {
        for text in [
            "the response is stale: there is no newer checkpoint",
            "make sure that the lock exists",
            "reports what to do",
            "a limit such as 16",
            "there is no such file",
            "the log is no longer retired",
            "exits as it began",
            "the log's own entries",
            "is, no doubt, complete",
            "the file `what` is written",
        ] {
            assert_eq!(in_rust(&format!("// {text}\n")), [""; 0], "{text}");
        }
    }

    #[test]
    fn a_phrase_is_found_across_lines_but_not_across_paragraphs() {
        assert_eq!(
            in_rust("// the tile is held\n// against it\n"),
            ["held against"]
        );
        assert_eq!(in_markdown("the tile is held\n\nagainst it\n"), [""; 0]);
    }

    #[test]
    fn documentation_opens_with_a_noun_or_verb() {
        for opening in [
            "Whoever", "What", "As", "In", "Of", "They", "These", "Behind",
        ] {
            let source = format!("/// {opening} words.\nstruct A;\n");
            let expected = opening.to_lowercase();
            assert_eq!(in_rust(&source), [expected], "{opening}");
        }
        assert_eq!(in_rust("/// Formats the verdict.\n"), [""; 0]);
        assert_eq!(in_rust("/// First line.\n/// In the second.\n"), [""; 0]);
        assert_eq!(in_rust("// In words.\n"), [""; 0]);
    }

    #[test]
    fn headings_are_noun_phrases() {
        assert_eq!(in_markdown("# Tests that fail\n"), ["heading with \"that"]);
        assert_eq!(in_markdown("# Fault injection results\n"), [""; 0]);
        assert_eq!(in_markdown("Tests that fail\n"), [""; 0]);
        assert_eq!(in_markdown("```\n# a script that runs\n```\n"), [""; 0]);
    }

    #[test]
    fn lines_and_cells_have_a_limit() {
        let line = "word ".repeat(20);
        assert_eq!(in_markdown(&format!("{}\n", line.trim())), [""; 0]);
        assert_eq!(in_markdown(&format!("{line}word\n")), ["104 columns"]);
        assert_eq!(in_rust(&format!("    // {line}\n")), ["107 columns"]);
        assert_eq!(in_markdown(&format!("| {line} |\n")), [""; 0]);
        assert_eq!(in_markdown(&format!("[{}](x)\n", "a".repeat(120))), [""; 0]);
        let cell = "word ".repeat(61);
        assert_eq!(
            in_markdown(&format!("| {line}| {cell}|\n")),
            ["cell of 61 words"]
        );
    }

    #[test]
    fn findings_show_line_phrase_and_suggestion() {
        let pieces = of_rust("fn f() {}\n// one\n// is gone\n", true);
        let shown: Vec<String> = pieces
            .iter()
            .flat_map(examine)
            .map(|finding| finding.to_string())
            .collect();
        assert_eq!(
            shown,
            ["3: \"is gone\": write `disabled`, `unavailable`, `removed`"]
        );
    }
}
