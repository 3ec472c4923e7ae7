//! Pieces of prose: comments and texts of a Rust file, or paragraphs of a Markdown file.

/// The place of a piece of prose, which determines the rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A comment that is not documentation.
    Comment,
    /// A documentation comment of an item.
    Doc,
    /// Documentation of a module or crate.
    ModuleDoc,
    /// A string literal with a text.
    Text,
    /// A Markdown file.
    Page,
}

/// Consecutive lines of one kind.
#[derive(Debug)]
pub(super) struct Piece<'s> {
    pub(super) kind: Kind,
    pub(super) lines: Vec<Line<'s>>,
}

/// A line of a piece.
#[derive(Clone, Copy, Debug)]
pub(super) struct Line<'s> {
    /// Number of the line in its file, from 1.
    pub(super) number: usize,
    /// Prose, without comment markers.
    pub(super) text: &'s str,
    /// Number of columns of the whole line in the file, in characters; 0 for texts, which rustfmt
    /// wraps.
    pub(super) width: usize,
}

/// Returns a Markdown file as one piece.
pub(super) fn of_markdown(source: &str) -> Vec<Piece<'_>> {
    let lines = source
        .lines()
        .enumerate()
        .map(|(at, text)| Line {
            number: at + 1,
            text,
            width: text.chars().count(),
        })
        .collect();
    let kind = Kind::Page;
    vec![Piece { kind, lines }]
}

/// Returns the comments of a Rust file and, with `texts`, its string literals of three words and
/// more up to its unit tests.
pub(super) fn of_rust(source: &str, texts: bool) -> Vec<Piece<'_>> {
    let tests_at = source.find("#[cfg(test)]\nmod ").unwrap_or(source.len());
    let mut scanner = Scanner::new(source);
    while let Some(start) = scanner.next_literal() {
        match start {
            Literal::LineComment => scanner.line_comment(),
            Literal::BlockComment => scanner.block_comment(),
            Literal::String { hashes, raw } => {
                let wanted = texts && scanner.at < tests_at;
                scanner.string(hashes, raw, wanted);
            }
        }
    }
    scanner.pieces
}

enum Literal {
    LineComment,
    BlockComment,
    String { hashes: usize, raw: bool },
}

struct Scanner<'s> {
    source: &'s str,
    at: usize,
    /// Number of the line at `counted`, from 1.
    line: usize,
    counted: usize,
    pieces: Vec<Piece<'s>>,
}

impl<'s> Scanner<'s> {
    fn new(source: &'s str) -> Self {
        Scanner {
            source,
            at: 0,
            line: 1,
            counted: 0,
            pieces: Vec::new(),
        }
    }

    /// Moves to the next comment or string literal.
    fn next_literal(&mut self) -> Option<Literal> {
        let bytes = self.source.as_bytes();
        while let Some(byte) = bytes.get(self.at) {
            match byte {
                b'/' if bytes.get(self.at + 1) == Some(&b'/') => return Some(Literal::LineComment),
                b'/' if bytes.get(self.at + 1) == Some(&b'*') => {
                    return Some(Literal::BlockComment);
                }
                b'"' => {
                    let (hashes, raw) = raw_string_before(&bytes[..self.at]);
                    return Some(Literal::String { hashes, raw });
                }
                b'\'' => self.at += character_length(&self.source[self.at..]),
                _ => self.at += 1,
            }
        }
        None
    }

    fn line_number(&mut self, at: usize) -> usize {
        let passed = &self.source.as_bytes()[self.counted..at];
        self.line += passed.iter().filter(|byte| **byte == b'\n').count();
        self.counted = at;
        self.line
    }

    fn line_comment(&mut self) {
        let start = self.at;
        let rest = &self.source[start..];
        let comment = &rest[..rest.find('\n').unwrap_or(rest.len())];
        self.at += comment.len();
        let (kind, text) = comment_kind(comment);
        let before = &self.source[..start];
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        let width = self.source[line_start..self.at].chars().count();
        let number = self.line_number(start);
        let line = Line {
            number,
            text,
            width,
        };
        if let Some(last) = self.pieces.last_mut()
            && last.kind == kind
            && last
                .lines
                .last()
                .is_some_and(|line| line.number + 1 == number)
        {
            last.lines.push(line);
            return;
        }
        let lines = vec![line];
        self.pieces.push(Piece { kind, lines });
    }

    fn block_comment(&mut self) {
        let start = self.at;
        let end = self.source[start..]
            .find("*/")
            .map_or(self.source.len(), |length| start + length + 2);
        let first = self.line_number(start);
        self.at = end;
        self.push_text(Kind::Comment, first, &self.source[start..end]);
    }

    fn string(&mut self, hashes: usize, raw: bool, wanted: bool) {
        let start = self.at + 1;
        let rest = &self.source[start..];
        let length = string_length(rest, hashes, raw);
        self.at = (start + length + 1 + hashes).min(self.source.len());
        let text = &rest[..length];
        if wanted && is_text(text) {
            let first = self.line_number(start);
            self.push_text(Kind::Text, first, text);
        }
    }

    fn push_text(&mut self, kind: Kind, first: usize, text: &'s str) {
        let line = |(at, text)| Line {
            number: first + at,
            text,
            width: 0,
        };
        let lines = text.lines().enumerate().map(line).collect();
        self.pieces.push(Piece { kind, lines });
    }
}

fn comment_kind(comment: &str) -> (Kind, &str) {
    let (kind, text) = if let Some(text) = comment.strip_prefix("//!") {
        (Kind::ModuleDoc, text)
    } else if let Some(text) = comment.strip_prefix("///") {
        (Kind::Doc, text)
    } else {
        (Kind::Comment, comment.trim_start_matches('/'))
    };
    (kind, text.strip_prefix(' ').unwrap_or(text))
}

/// Returns the number of `#` before a quote, and whether an `r` precedes them.
fn raw_string_before(before: &[u8]) -> (usize, bool) {
    let hashes = before.iter().rev().take_while(|b| **b == b'#').count();
    let raw = before[..before.len() - hashes].last() == Some(&b'r');
    if raw { (hashes, true) } else { (0, false) }
}

/// Returns the length of a string's contents, up to the quote that ends it.
fn string_length(rest: &str, hashes: usize, raw: bool) -> usize {
    if raw {
        let end = format!("\"{}", "#".repeat(hashes));
        return rest.find(&end).unwrap_or(rest.len());
    }
    let mut escaped = false;
    let end = rest.bytes().position(|byte| {
        let ends = byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
        ends
    });
    end.unwrap_or(rest.len())
}

/// Returns the length of a character literal, or 1 for the quote of a lifetime.
fn character_length(rest: &str) -> usize {
    let inner = &rest[1..];
    if inner.starts_with('\\') {
        let end = inner.get(2..).and_then(|rest| rest.find('\''));
        return end.map_or(1, |end| end + 4);
    }
    match inner.chars().next() {
        Some(one) if inner[one.len_utf8()..].starts_with('\'') => one.len_utf8() + 2,
        _ => 1,
    }
}

/// Returns true for literals with a text for people: three words or more.
fn is_text(literal: &str) -> bool {
    let is_word = |word: &&str| {
        word.chars().filter(|letter| letter.is_alphabetic()).count() >= 2 || *word == "a"
    };
    literal.split_whitespace().filter(is_word).count() >= 3
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(source: &str) -> Vec<(Kind, usize, &str)> {
        of_rust(source, true)
            .iter()
            .flat_map(|piece| {
                let kind = piece.kind;
                piece
                    .lines
                    .iter()
                    .map(move |line| (kind, line.number, line.text))
            })
            .collect()
    }

    #[test]
    fn comments_and_texts_are_found_with_their_lines() {
        let source = "//! A module.\n\n/// An item.\nfn f<'a>(x: &'a str) {\n    \
                      let c = ('\"', '\\'', \"// no comment here\"); // why\n}\n";
        assert_eq!(
            read(source),
            [
                (Kind::ModuleDoc, 1, "A module."),
                (Kind::Doc, 3, "An item."),
                (Kind::Text, 5, "// no comment here"),
                (Kind::Comment, 5, "why"),
            ]
        );
    }

    #[test]
    fn raw_and_escaped_strings_end_where_they_do() {
        let source = "f(r#\"one \"two\" three\"#, \"call \\\"one two\\\"\", br\"x\"); // end";
        assert_eq!(
            read(source),
            [
                (Kind::Text, 1, "one \"two\" three"),
                (Kind::Text, 1, "call \\\"one two\\\""),
                (Kind::Comment, 1, "end"),
            ]
        );
    }

    #[test]
    fn consecutive_lines_are_one_piece() {
        let pieces = of_rust("/// One.\n/// Two.\n\n/// Three.\n// Four.\n", true);
        let sizes: Vec<usize> = pieces.iter().map(|piece| piece.lines.len()).collect();
        assert_eq!(sizes, [2, 1, 1]);
    }

    #[test]
    fn texts_of_unit_tests_and_short_literals_are_left_out() {
        let source = "f(\"two words\");\n#[cfg(test)]\nmod tests {\n f(\"three words here\"); }\n";
        assert_eq!(read(source), []);
    }
}
