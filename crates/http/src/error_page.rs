//! The page of all errors: cause and remedy of each code.
//!
//! The texts are the tables of docs/reference/errors.md, which is part of the binary: the page
//! needs no web site of the project, and describes the running version.

use std::sync::LazyLock;

use askama::Template;

use crate::pages;
use crate::reply::Response;

/// Path of the page below the prefix of a log, and below the root of the site.
pub(crate) const PATH: &str = "errors";

const SOURCE: &str = include_str!("../../../docs/reference/errors.md");

#[derive(Template)]
#[template(path = "errors.html")]
struct ErrorPage {
    sections: Vec<Section>,
}

/// A table of codes with its heading.
struct Section {
    heading: &'static str,
    entries: Vec<Entry>,
}

/// A code with the other columns of its row.
struct Entry {
    code: &'static str,
    fields: Vec<Field>,
}

struct Field {
    name: &'static str,
    parts: Vec<Part>,
}

/// Part of a text, in one font.
struct Part {
    text: String,
    is_code: bool,
}

pub(crate) fn response() -> Response {
    static PAGE: LazyLock<ErrorPage> = LazyLock::new(|| ErrorPage {
        sections: sections(),
    });
    pages::page(&*PAGE)
}

/// Returns the sections of the source with the codes of responses.
fn sections() -> Vec<Section> {
    let sections = SOURCE.split("\n## ").skip(1).map(section);
    sections
        .filter(|section| !section.entries.is_empty())
        .collect()
}

/// Parses a section. Tables without the column `code` in the first place have no entries.
fn section(text: &'static str) -> Section {
    let heading = text.lines().next().unwrap_or_default();
    let mut rows = text.lines().filter(|line| line.starts_with('|')).map(cells);
    let names = rows.next().unwrap_or_default();
    let entries = rows.filter_map(|row| entry(&names, &row));
    Section {
        heading,
        entries: match names.first() {
            Some(&"code") => entries.collect(),
            _ => Vec::new(),
        },
    }
}

fn cells(row: &'static str) -> Vec<&'static str> {
    row.trim_matches('|').split('|').map(str::trim).collect()
}

/// Parses the row of a code. Returns `None` for the line between the names and the rows.
fn entry(names: &[&'static str], row: &[&'static str]) -> Option<Entry> {
    let (code, texts) = row.split_first()?;
    let code = code.strip_prefix('`')?.strip_suffix('`')?;
    let fields = names.iter().skip(1).zip(texts).map(|(name, text)| Field {
        name,
        parts: parts(text),
    });
    Some(Entry {
        code,
        fields: fields.collect(),
    })
}

/// Splits a text at its backquotes.
fn parts(text: &str) -> Vec<Part> {
    let text = without_links(text);
    let parts = text.split('`').enumerate().map(|(index, text)| Part {
        text: text.to_owned(),
        is_code: index % 2 == 1,
    });
    parts.filter(|part| !part.text.is_empty()).collect()
}

/// Replaces links to other pages with their texts: a log does not serve those pages.
fn without_links(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, link)) = rest.split_once('[')
        && let Some((name, after)) = link.split_once("](")
        && let Some((_, after)) = after.split_once(')')
    {
        plain.push_str(before);
        plain.push_str(name);
        rest = after;
    }
    plain.push_str(rest);
    plain
}

#[cfg(test)]
mod tests {
    use super::*;
    use lucarne_ct::Code;

    #[test]
    fn every_code_has_its_entry() {
        let sections = sections();
        let headings: Vec<_> = sections.iter().map(|section| section.heading).collect();
        assert_eq!(
            headings,
            [
                "Refused submissions",
                "Submissions without a verdict",
                "Refused reads",
                "Refused requests to a witness",
                "Refused uploads to a mirror"
            ]
        );
        let entries: Vec<_> = sections.iter().flat_map(|s| &s.entries).collect();
        assert!(entries.iter().all(|entry| entry.fields.len() >= 2));
        let html = ErrorPage { sections }.render().unwrap();
        for code in Code::ALL {
            let anchor = format!("id=\"{}\"", code.as_str());
            assert_eq!(html.matches(&anchor).count(), 1, "{anchor}");
        }
        assert!(html.len() < 32 << 10, "{}", html.len());
    }

    #[test]
    fn texts_lose_their_markup() {
        let parts = parts("Retry after `Retry-After`; [limits.md](limits.md#reads) has <limits>.");
        let texts: Vec<_> = parts.iter().map(|p| (p.text.as_str(), p.is_code)).collect();
        assert_eq!(
            texts,
            [
                ("Retry after ", false),
                ("Retry-After", true),
                ("; limits.md has <limits>.", false)
            ]
        );
        assert_eq!(
            without_links("an array[1] (of two)"),
            "an array[1] (of two)"
        );
    }
}
