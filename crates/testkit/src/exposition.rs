//! A strict check of the text format of Prometheus, version 0.0.4.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, bail, ensure};

/// Labels of a sample, by name.
type Labels = BTreeMap<String, String>;

/// A family of metrics, as its `TYPE` line declares it.
struct Family<'t> {
    name: &'t str,
    kind: &'t str,
    /// Histograms by their labels without `le`.
    histograms: BTreeMap<Labels, Histogram>,
}

#[derive(Default)]
struct Histogram {
    buckets: Vec<(f64, f64)>,
    sum: Option<f64>,
    count: Option<f64>,
}

/// Checks that `text` is a valid exposition: each family is described once, each series occurs
/// once, and the buckets of each histogram end with `+Inf`. Returns the names of the histograms.
///
/// # Errors
/// The first line or the first histogram that breaks a rule.
pub fn check_exposition(text: &str) -> Result<Vec<String>> {
    ensure!(text.ends_with('\n'), "the last line has no end");
    let mut families: Vec<Family<'_>> = Vec::new();
    let mut help = None;
    let mut seen = BTreeSet::new();
    for line in text.lines() {
        let described = |start: &str| line.strip_prefix(start)?.split_once(' ');
        if let Some((name, _)) = described("# HELP ") {
            help = Some(name);
        } else if let Some((name, kind)) = described("# TYPE ") {
            ensure!(help.take() == Some(name), "no HELP before: {line}");
            let known = families.iter().any(|family| family.name == name);
            ensure!(!known, "a second family of this name: {line}");
            ensure!(KINDS.contains(&kind), "unknown type: {line}");
            families.push(Family {
                name,
                kind,
                histograms: BTreeMap::new(),
            });
        } else {
            let family = families.last_mut().context("a sample without a family")?;
            let (name, labels, value) = sample(line).with_context(|| format!("sample: {line}"))?;
            ensure!(seen.insert((name, labels.clone())), "repeated: {line}");
            family.add(name, labels, value).context(line.to_owned())?;
        }
    }
    families.retain(|family| family.kind == "histogram");
    for family in &families {
        for (labels, histogram) in &family.histograms {
            histogram
                .check()
                .with_context(|| format!("{} {labels:?}", family.name))?;
        }
    }
    Ok(families.iter().map(|it| it.name.to_owned()).collect())
}

const KINDS: [&str; 5] = ["counter", "gauge", "histogram", "summary", "untyped"];

impl Family<'_> {
    fn add(&mut self, name: &str, mut labels: Labels, value: f64) -> Result<()> {
        let suffix = name.strip_prefix(self.name).context("another family")?;
        if self.kind != "histogram" {
            ensure!(suffix.is_empty(), "another family");
            ensure!(self.kind != "counter" || value >= 0.0, "negative counter");
            return Ok(());
        }
        let bound = labels.remove("le");
        let histogram = self.histograms.entry(labels).or_default();
        match (suffix, bound) {
            ("_bucket", Some(bound)) => histogram.buckets.push((number(&bound)?, value)),
            ("_sum", None) => histogram.sum = Some(value),
            ("_count", None) => histogram.count = Some(value),
            _ => bail!("not a sample of a histogram"),
        }
        Ok(())
    }
}

impl Histogram {
    fn check(&self) -> Result<()> {
        ensure!(self.sum.is_some(), "no sum");
        let rising = |pair: &[(f64, f64)]| pair[0].0 < pair[1].0 && pair[0].1 <= pair[1].1;
        ensure!(self.buckets.windows(2).all(rising), "buckets do not rise");
        let last = self.buckets.last().context("no buckets")?;
        ensure!(last.0 == f64::INFINITY, "no bucket with le=\"+Inf\"");
        ensure!(Some(last.1) == self.count, "`+Inf` is not the count");
        Ok(())
    }
}

/// Parses a line with a value.
fn sample(line: &str) -> Result<(&str, Labels, f64)> {
    let end = line.find(['{', ' ']).context("no value")?;
    let (name, mut rest) = line.split_at(end);
    ensure!(is_name(name), "invalid name");
    let mut labels = Labels::new();
    if let Some(mut inside) = rest.strip_prefix('{') {
        loop {
            let (label, value) = inside.split_once("=\"").context("a label has no value")?;
            ensure!(is_name(label) && !label.contains(':'), "invalid label");
            let (value, after) = quoted(value)?;
            let repeated = labels.insert(label.to_owned(), value).is_some();
            ensure!(!repeated, "repeated label");
            if let Some(after) = after.strip_prefix('}') {
                rest = after;
                break;
            }
            inside = after.strip_prefix(',').context("expected `,` or `}`")?;
        }
    }
    let value = rest
        .strip_prefix(' ')
        .context("no space before the value")?;
    Ok((name, labels, number(value)?))
}

/// Returns the text up to the closing quotation mark, without escapes, and the text after the
/// mark.
fn quoted(text: &str) -> Result<(String, &str)> {
    let mut value = String::new();
    let mut letters = text.char_indices();
    while let Some((at, letter)) = letters.next() {
        value.push(match letter {
            '"' => return Ok((value, &text[at + 1..])),
            '\\' => match letters.next() {
                Some((_, 'n')) => '\n',
                Some((_, letter @ ('\\' | '"'))) => letter,
                _ => bail!("invalid escape"),
            },
            other => other,
        });
    }
    bail!("a label does not end")
}

fn number(text: &str) -> Result<f64> {
    let digits = |c: char| c.is_ascii_digit() || "+-.eE".contains(c);
    match text {
        "+Inf" => Ok(f64::INFINITY),
        "-Inf" => Ok(f64::NEG_INFINITY),
        "NaN" => Ok(f64::NAN),
        _ if text.chars().all(digits) => Ok(text.parse()?),
        _ => bail!("{text} is not a number"),
    }
}

fn is_name(text: &str) -> bool {
    let of_name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
    !text.is_empty() && text.chars().all(of_name) && !text.starts_with(|c: char| c.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    const VALID: &str = "\
# HELP a_total Requests.
# TYPE a_total counter
a_total{code=\"200\"} 3
a_total{code=\"a\\\"b\\\\c,}\"} 1
# HELP t_seconds Time.
# TYPE t_seconds histogram
t_seconds_sum 0.5
t_seconds_count 3
t_seconds_bucket{le=\"1.0\"} 2
t_seconds_bucket{le=\"+Inf\"} 3
";

    #[test]
    fn a_valid_text_passes() {
        assert_eq!(check_exposition(VALID).unwrap(), ["t_seconds"]);
    }

    #[test]
    fn each_broken_rule_is_found() {
        for (from, to, why) in [
            ("+Inf", "1.7976931348623157e308", "no bucket with"),
            ("\"+Inf\"} 3", "\"+Inf\"} 2", "is not the count"),
            ("\"1.0\"} 2", "\"1.0\"} 4", "do not rise"),
            ("1.0", "NaN", "do not rise"),
            ("t_seconds_sum 0.5\n", "", "no sum"),
            ("t_seconds_sum", "t_seconds", "not a sample of"),
            (
                "code=\"200\"",
                "code=\"200\",code=\"200\"",
                "repeated label",
            ),
            ("a\\\"b\\\\c,}", "200", "repeated"),
            ("a\\\"b", "a\\xb", "invalid escape"),
            ("} 3\na_total", "}  3\na_total", "is not a number"),
            ("} 1\n#", "} -1\n#", "negative"),
            ("# HELP t_seconds Time.\n", "", "no HELP"),
            ("t_seconds histogram", "t_seconds timer", "unknown type"),
            ("a_total{code=\"200\"}", "b_total", "another family"),
            ("\"+Inf\"} 3\n", "\"+Inf\"} 3", "no end"),
        ] {
            let text = VALID.replacen(from, to, 1);
            assert_ne!(text, VALID, "{from}");
            let error = format!("{:#}", check_exposition(&text).unwrap_err());
            assert!(error.contains(why), "{from} → {to}: {error}");
        }
    }
}
