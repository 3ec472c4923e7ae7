//! Words of a piece of prose, without code, link targets and placeholders.

use super::pieces::{Kind, Line, Piece};

/// A word, or the place of something that is not prose.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Token {
    /// The word in lower case; empty for code, a placeholder or the end of a paragraph.
    pub(super) word: String,
    /// Number of its line in the file, from 1.
    pub(super) line: usize,
    /// The punctuation mark before the word, if any.
    pub(super) after: Option<char>,
}

/// Splits a piece into words.
pub(super) fn of(piece: &Piece<'_>) -> Vec<Token> {
    let mut tokenizer = Tokenizer::default();
    for line in prose_lines(piece) {
        match line {
            Some(line) => tokenizer.line(line),
            None => tokenizer.end_paragraph(),
        }
    }
    tokenizer.tokens
}

/// The lines of a piece that are not code; `None` ends a paragraph.
pub(super) fn prose_lines<'p, 's>(
    piece: &'p Piece<'s>,
) -> impl Iterator<Item = Option<Line<'s>>> + use<'p, 's> {
    let (mut fenced, mut indented, mut list, mut blank) = (false, false, false, true);
    let marked_up = matches!(piece.kind, Kind::Page | Kind::Doc | Kind::ModuleDoc);
    piece.lines.iter().map(move |line| {
        let text = line.text.trim();
        if !marked_up {
            return (!text.is_empty()).then_some(*line);
        }
        if text.starts_with("```") {
            fenced = !fenced;
            return None;
        }
        if fenced {
            return None;
        }
        if text.is_empty() {
            blank = true;
            return None;
        }
        let indent = line.text.len() - line.text.trim_start().len();
        let code_indent = if list { 7 } else { 4 };
        indented = indent >= code_indent && (indented || blank);
        if indent == 0 {
            list = text.starts_with("- ") || text.starts_with(|c: char| c.is_ascii_digit());
        }
        blank = false;
        (!indented).then_some(*line)
    })
}

#[derive(Default)]
struct Tokenizer {
    tokens: Vec<Token>,
    after: Option<char>,
    in_code: bool,
}

impl Tokenizer {
    fn end_paragraph(&mut self) {
        self.in_code = false;
        self.after = Some('.');
    }

    fn line(&mut self, line: Line<'_>) {
        let mut rest = line.text;
        if rest.trim_start().starts_with(['#', '|', '-', '*', '>']) {
            self.end_paragraph();
        }
        while let Some(first) = rest.chars().next() {
            let taken = if self.in_code || first == '`' {
                self.code(rest, line.number)
            } else if let Some(length) = link_target(rest) {
                length
            } else if first == '\\' {
                self.after = Some('.');
                rest.chars().take(2).map(char::len_utf8).sum()
            } else if first == '{' {
                self.push(String::new(), line.number);
                rest.find('}').map_or(rest.len(), |end| end + 1)
            } else if first.is_alphanumeric() {
                self.word(rest, line.number)
            } else {
                if !first.is_whitespace() && !matches!(first, '*' | '"' | '“' | '”') {
                    self.after = Some(first);
                }
                first.len_utf8()
            };
            rest = &rest[taken..];
        }
    }

    /// Skips a code span, which may continue in the next line.
    fn code(&mut self, rest: &str, line: usize) -> usize {
        let inner = if self.in_code { rest } else { &rest[1..] };
        if !self.in_code {
            self.push(String::new(), line);
        }
        match inner.find('`') {
            Some(end) => {
                self.in_code = false;
                rest.len() - inner.len() + end + 1
            }
            None => {
                self.in_code = true;
                rest.len()
            }
        }
    }

    /// Takes a word. Identifiers, paths and addresses are placeholders.
    fn word(&mut self, rest: &str, line: usize) -> usize {
        let blank = rest.find(char::is_whitespace).unwrap_or(rest.len());
        let chunk = &rest[..blank];
        if chunk.contains("://") || chunk.contains("::") {
            self.push(String::new(), line);
            return blank;
        }
        let in_word = |c: char| c.is_alphanumeric() || matches!(c, '\'' | '’' | '-' | '_');
        let end = chunk.find(|c| !in_word(c)).unwrap_or(blank);
        let word = rest[..end].trim_end_matches(['\'', '’', '-']);
        if word.contains('_') {
            self.push(String::new(), line);
        } else {
            self.push(word.to_lowercase().replace('’', "'"), line);
        }
        end
    }

    fn push(&mut self, word: String, line: usize) {
        let after = self.after.take();
        self.tokens.push(Token { word, line, after });
    }
}

/// Length of a link's target, `](…)`.
fn link_target(rest: &str) -> Option<usize> {
    let target = rest.strip_prefix("](")?;
    Some(target.find(')')? + 3)
}

#[cfg(test)]
mod tests {
    use super::super::pieces::{of_markdown, of_rust};
    use super::*;

    fn words(markdown: &str) -> Vec<String> {
        let pieces = of_markdown(markdown);
        of(&pieces[0])
            .into_iter()
            .map(|token| token.word)
            .filter(|word| !word.is_empty())
            .collect()
    }

    #[test]
    fn code_links_and_addresses_are_not_words() {
        let page = "A `what is` [page](who.md) at https://who.example/x of log_who and a::who.\n";
        assert_eq!(words(page), ["a", "page", "at", "of", "and"]);
    }

    #[test]
    fn code_blocks_are_not_words() {
        let page = "One.\n\n    who waits\n\n- two\n\n      who\n\n```\nwho\n```\nthree\n";
        assert_eq!(words(page), ["one", "two", "who", "three"]);
        let page = "1. one\n\n       who waits\n\ntwo\n";
        assert_eq!(words(page), ["1", "one", "two"]);
    }

    #[test]
    fn a_code_span_goes_on_in_the_next_line() {
        assert_eq!(words("a `b\nc` d\n"), ["a", "d"]);
    }

    #[test]
    fn words_have_their_line_and_the_mark_before_them() {
        let pieces = of_rust("// One, it's\n// two.\n", true);
        let tokens = of(&pieces[0]);
        let read: Vec<_> = tokens
            .iter()
            .map(|token| (token.word.as_str(), token.line, token.after))
            .collect();
        assert_eq!(
            read,
            [("one", 1, None), ("it's", 1, Some(',')), ("two", 2, None)]
        );
    }
}
