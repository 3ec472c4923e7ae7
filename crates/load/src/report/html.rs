//! `report.html`: a single file without external resources.
//!
//! The tables are static and readable without JavaScript. `assets/report.js` draws the plots from
//! the JSON in the page. The page's content security policy permits only this script and this style
//! sheet, by their hashes, so text from a target cannot run as a script.

mod data;
mod rows;

use askama::Template;
use aws_lc_rs::digest::{SHA256, digest};
use base64_simd::STANDARD;
use lucarne_net::printable_lines;

use self::rows::{Figure, MatrixTable, MetricRow, ScenarioRow, TaggedRow};
use super::format;
use super::matrix;
use crate::{Summary, Verdict};

const STYLE: &str = include_str!("../../assets/report.css");
const SCRIPT: &str = include_str!("../../assets/report.js");

#[derive(Template)]
#[template(path = "report.html")]
struct Page<'s> {
    summary: &'s Summary,
    script_hash: String,
    style_hash: String,
    style: &'static str,
    script: &'static str,
    name: String,
    verdict: String,
    mood: &'static str,
    started: String,
    duration: String,
    load: String,
    figures: Vec<Figure>,
    has_timeline: bool,
    has_curves: bool,
    scenarios: Vec<ScenarioRow>,
    matrices: Vec<MatrixTable>,
    tagged: Vec<TaggedRow>,
    metrics: Vec<MetricRow>,
    environment: Vec<(&'static str, String)>,
    command: String,
    data: String,
}

/// Renders the whole report as one HTML document. All text of the run is escaped, also characters
/// that end a line or change the direction of the text around them.
pub fn html(summary: &Summary) -> String {
    let matrix = matrix::matrix(summary);
    let data = data::Data::of(summary, matrix.as_ref());
    let page = Page {
        summary,
        script_hash: hash(SCRIPT),
        style_hash: hash(STYLE),
        style: STYLE,
        script: SCRIPT,
        name: if summary.name.is_empty() {
            "Load test".into()
        } else {
            summary.name.clone()
        },
        verdict: summary.result(),
        mood: mood(summary.verdict),
        started: instant(summary.started),
        duration: format::duration(summary.duration * 1e3),
        load: rows::load(summary),
        figures: rows::figures(summary),
        has_timeline: !summary.timeline.points.is_empty() && !summary.scenarios.is_empty(),
        has_curves: data.has_curves(),
        scenarios: rows::scenarios(summary),
        matrices: matrix.iter().map(MatrixTable::of).collect(),
        tagged: rows::tagged(summary),
        metrics: rows::metrics(summary),
        environment: rows::environment(summary),
        command: command(&summary.command),
        data: embedded(&data),
    };
    // Writing to a string fails only if a template returns an error, which this template never
    // does.
    printable_lines(&page.render().unwrap_or_default())
}

fn mood(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Passed => "good",
        Verdict::Interrupted | Verdict::Unjudged => "warn",
        _ => "bad",
    }
}

/// Formats Unix milliseconds as a date and time in UTC.
fn instant(ms: u64) -> String {
    if ms == 0 {
        return String::new();
    }
    let instant = i64::try_from(ms)
        .ok()
        .and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok());
    let seconds = instant.and_then(|at| at.round(jiff::Unit::Second).ok());
    seconds.map_or_else(String::new, |at| {
        at.to_string().replace('T', " ").replace('Z', " UTC")
    })
}

/// Serializes JSON that cannot end its HTML element: `<` occurs only in strings, and is
/// written as an escape.
fn embedded(data: &data::Data) -> String {
    let json = serde_json::to_string(data).unwrap_or_else(|_| "{}".to_owned());
    json.replace('<', "\\u003c")
}

/// Returns a hash source of a content security policy.
fn hash(text: &str) -> String {
    format!(
        "sha256-{}",
        STANDARD.encode_to_string(digest(&SHA256, text.as_bytes()))
    )
}

/// Formats a command line that a shell can run again.
fn command(words: &[String]) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=./:,@%+".contains(c);
    let quote = |word: &String| {
        if !word.is_empty() && word.chars().all(plain) {
            word.clone()
        } else {
            format!("'{}'", word.replace('\'', r"'\''"))
        }
    };
    words.iter().map(quote).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use lucarne_x509::text::is_control;

    use super::*;
    use crate::report::sample::{self, EVIL};

    /// Returns pages without the hostile text, which has its own tests.
    fn pages() -> [String; 3] {
        let mut tame = sample::summary();
        tame.errors.clear();
        tame.checks.clear();
        tame.notes.clear();
        [tame, sample::objects(), Summary::default()].map(|summary| html(&summary))
    }

    /// Returns a summary with hostile text in every text.
    fn hostile() -> Summary {
        let json = serde_json::to_value(sample::summary()).unwrap();
        fn spoil(value: &mut serde_json::Value) {
            match value {
                serde_json::Value::String(text) => {
                    text.push_str(EVIL);
                    text.push_str("\u{85}\u{2028}\u{202e}");
                }
                serde_json::Value::Array(items) => items.iter_mut().for_each(spoil),
                serde_json::Value::Object(fields) => {
                    let kept = ["schema", "verdict", "type", "histogram"];
                    let others = fields
                        .iter_mut()
                        .filter(|(key, _)| !kept.contains(&key.as_str()));
                    others.for_each(|(_, value)| spoil(value));
                }
                _ => {}
            }
        }
        let mut json = json;
        spoil(&mut json);
        serde_json::from_value(json).unwrap()
    }

    #[test]
    fn the_page_needs_nothing_else() {
        for page in pages() {
            assert!(page.starts_with("<!doctype html>") && page.trim_end().ends_with("</html>"));
            // A namespace is a name, and is not requested.
            let page = page.replace("http://www.w3.org/2000/svg", "");
            for trace in [
                "http://", "https://", "src=", "@import", "url(", "fetch(", "import ",
            ] {
                assert!(!page.contains(trace), "{trace}");
            }
            assert_eq!(page.matches("href=").count(), 1, "the empty icon alone");
            assert!(page.contains(r#"href="data:,""#));
        }
    }

    #[test]
    fn nothing_of_the_run_becomes_markup() {
        let page = html(&hostile());
        assert!(!page.contains("<img"), "an element was smuggled in");
        assert_eq!(page.matches("</script>").count(), 2);
        assert_eq!(page.matches("<script").count(), 2);
        assert_eq!(page.matches("<style").count(), 1);
        assert!(
            page.contains("&#60;img src=x"),
            "and the text is still there to be read"
        );
        let control = |c: char| is_control(c) && c != '\n' && c != '\t';
        assert!(!page.contains(control));
        assert!(page.contains("\\u0085\\u2028\\u202e"));
    }

    #[test]
    fn the_data_is_json_that_reads_back() {
        for page in [
            html(&hostile()),
            html(&sample::summary()),
            html(&Summary::default()),
        ] {
            let start = page.find(r#"id="data">"#).unwrap() + 10;
            let end = start + page[start..].find("</script>").unwrap();
            let data: serde_json::Value = serde_json::from_str(&page[start..end]).unwrap();
            assert!(data["timeline"]["scenarios"].is_array());
            // The script shows these names as they are.
            assert!(!data.to_string().contains(is_control));
        }
    }

    #[test]
    fn the_policy_names_what_is_embedded() {
        let page = html(&sample::summary());
        let between = |open: &str, close: &str| {
            let start = page.rfind(open).unwrap() + open.len();
            page[start..start + page[start..].find(close).unwrap()].to_owned()
        };
        // Attributes are escaped, so `+` and `=` of base64 may be entities.
        let policy = page[..page.find("<title>").unwrap()]
            .replace("&#61;", "=")
            .replace("&#43;", "+");
        assert!(policy.contains(&hash(&between("<script>", "</script>"))));
        assert!(policy.contains(&hash(&between("<style>", "</style>"))));
        assert!(policy.contains("default-src 'none'"));
        assert!(!page.contains(" style=\"") && !page.contains(" onclick="));
    }

    /// Writes the pages to files for inspection.
    #[test]
    fn pages_for_the_eye() {
        let Some(folder) = std::env::var_os("LUCARNE_SAMPLE_PAGES") else {
            return;
        };
        for (name, summary) in [("load", sample::summary()), ("cells", sample::objects())] {
            let path = std::path::Path::new(&folder)
                .join(name)
                .with_extension("html");
            std::fs::write(path, html(&summary)).unwrap();
        }
    }

    #[test]
    fn an_empty_run_makes_a_page_too() {
        let page = html(&Summary::default());
        assert!(page.contains("Load test") && !page.contains("NaN"));
    }

    #[test]
    fn a_matrix_is_a_table() {
        let page = html(&sample::objects());
        assert!(page.contains("PUT 4kB") && page.contains("3384/s") && page.contains("matrix-0"));
    }

    #[test]
    fn a_command_can_be_typed_again() {
        let words = [
            "lucarne",
            "load",
            "--threshold",
            "http_reqs: count>1",
            "it's",
            "",
        ];
        let line = command(&words.map(str::to_owned));
        assert_eq!(
            line,
            r"lucarne load --threshold 'http_reqs: count>1' 'it'\''s' ''"
        );
    }

    #[test]
    fn instants_are_utc() {
        assert_eq!(instant(1_795_305_600_000), "2026-11-22 00:00:00 UTC");
        assert_eq!(instant(0), "");
        assert_eq!(instant(u64::MAX), "");
    }
}
