//! Parser of thresholds.

use std::time::Duration;

use super::known::of_every_scenario;
use super::{Aggregation, Operator, Threshold, ThresholdError, ThresholdProblem};

/// Operators, the longest first, because `<` is a prefix of `<=`.
const OPERATORS: [(&str, Operator); 8] = [
    ("===", Operator::Equal),
    ("!==", Operator::Different),
    ("<=", Operator::LessOrEqual),
    (">=", Operator::GreaterOrEqual),
    ("==", Operator::Equal),
    ("!=", Operator::Different),
    ("<", Operator::Less),
    (">", Operator::Greater),
];

/// Units of durations in milliseconds, the longest first.
const UNITS: [(&str, f64); 7] = [
    ("ns", 1e-6),
    ("us", 1e-3),
    ("µs", 1e-3),
    ("ms", 1.0),
    ("s", 1e3),
    ("m", 60e3),
    ("h", 3600e3),
];

impl Threshold {
    /// Parses a key (`metric{tag:value}`) and an expression (`p(95)<500`).
    ///
    /// # Errors
    ///
    /// The reason why either is invalid.
    pub fn new(key: &str, expression: &str) -> Result<Self, ThresholdError> {
        let (key, expression) = (key.trim(), expression.trim());
        let problem = |problem| ThresholdError {
            threshold: format!("{key}: {expression}"),
            problem,
        };
        let (metric, tags) = read_key(key).map_err(problem)?;
        let (aggregation, operator, bound, unit) = read_expression(expression).map_err(problem)?;
        let threshold = Threshold {
            key: key.into(),
            expression: expression.into(),
            abort_on_fail: false,
            delay_abort_eval: Duration::ZERO,
            metric,
            tags,
            aggregation,
            operator,
            bound,
            has_unit: unit,
            built_in: false,
        };
        if let Some(kind) = of_every_scenario(&threshold.metric) {
            threshold.fits(kind).map_err(problem)?;
        }
        Ok(threshold)
    }

    /// Parses the one-line form of the command line: `metric{tag:value}: p(95)<500`.
    ///
    /// # Errors
    ///
    /// The reason why the line is invalid.
    pub fn parse(line: &str) -> Result<Self, ThresholdError> {
        let brace = closing_brace(line).unwrap_or(0);
        match line[brace..].find(':') {
            Some(colon) => Threshold::new(&line[..brace + colon], &line[brace + colon + 1..]),
            None => Err(ThresholdError {
                threshold: line.into(),
                problem: ThresholdProblem::NoExpression,
            }),
        }
    }
}

/// Finds the brace that closes the first brace of `text`, because the name of a check may contain
/// braces.
fn closing_brace(text: &str) -> Option<usize> {
    let mut open = 0_usize;
    for (at, letter) in text.char_indices() {
        match letter {
            '{' => open += 1,
            '}' if open == 1 => return Some(at),
            '}' => open = open.checked_sub(1)?,
            _ => {}
        }
    }
    None
}

type Key = (String, Vec<(String, String)>);

fn read_key(key: &str) -> Result<Key, ThresholdProblem> {
    let (metric, tags) = match key.split_once('{') {
        None => (key, ""),
        Some((metric, rest)) => {
            let inner = rest.strip_suffix('}').ok_or(ThresholdProblem::NotClosed)?;
            if inner.trim().is_empty() {
                return Err(ThresholdProblem::NoTags);
            }
            (metric, inner)
        }
    };
    let metric = metric.trim();
    let letter = |c: char| c.is_alphanumeric() || "_-.".contains(c);
    if metric.is_empty() || !metric.chars().all(letter) {
        return Err(ThresholdProblem::Metric(metric.to_owned()));
    }
    let tags = tags.split(',').filter(|tag| !tag.is_empty()).map(read_tag);
    Ok((metric.into(), tags.collect::<Result<_, _>>()?))
}

fn read_tag(tag: &str) -> Result<(String, String), ThresholdProblem> {
    match tag.split_once(':') {
        Some((name, value)) if !name.trim().is_empty() => {
            Ok((name.trim().into(), value.trim().trim_matches('"').into()))
        }
        _ => Err(ThresholdProblem::Tag(tag.to_owned())),
    }
}

fn read_expression(text: &str) -> Result<(Aggregation, Operator, f64, bool), ThresholdProblem> {
    let place = text
        .find(['<', '>', '=', '!'])
        .ok_or(ThresholdProblem::NoOperator)?;
    let rest = &text[place..];
    let (sign, operator) = OPERATORS
        .into_iter()
        .find(|(sign, _)| rest.starts_with(sign))
        .ok_or(ThresholdProblem::Operator)?;
    let aggregation = read_aggregation(text[..place].trim())?;
    let (bound, unit) = read_bound(rest[sign.len()..].trim())?;
    Ok((aggregation, operator, bound, unit))
}

fn read_aggregation(text: &str) -> Result<Aggregation, ThresholdProblem> {
    Ok(match text {
        "avg" => Aggregation::Avg,
        "min" => Aggregation::Min,
        "max" => Aggregation::Max,
        "med" => Aggregation::Med,
        "count" => Aggregation::Count,
        "rate" => Aggregation::Rate,
        "value" => Aggregation::Value,
        _ => match text
            .strip_prefix("p(")
            .and_then(|rest| rest.strip_suffix(')'))
        {
            Some(p) => match p.trim().parse() {
                Ok(p) if (0.0..=100.0).contains(&p) => Aggregation::Percentile(p),
                _ => return Err(ThresholdProblem::Percentile(p.to_owned())),
            },
            None => return Err(ThresholdProblem::Aggregation(text.to_owned())),
        },
    })
}

/// Parses a number, and returns whether it has a unit.
fn read_bound(text: &str) -> Result<(f64, bool), ThresholdProblem> {
    let unit = UNITS.into_iter().find(|(unit, _)| text.ends_with(unit));
    let number = unit.map_or(text, |(unit, _)| &text[..text.len() - unit.len()]);
    match number.trim().parse::<f64>() {
        Ok(number) if number.is_finite() => Ok((
            number * unit.map_or(1.0, |(_, scale)| scale),
            unit.is_some(),
        )),
        _ => Err(ThresholdProblem::Number(text.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(expression: &str) -> (Aggregation, Operator, f64) {
        let threshold = Threshold::new("custom", expression).unwrap();
        (threshold.aggregation, threshold.operator, threshold.bound)
    }

    #[test]
    fn expressions() {
        assert_eq!(
            read("p(95)<500"),
            (Aggregation::Percentile(95.0), Operator::Less, 500.0)
        );
        assert_eq!(
            read(" p( 99.9 ) <= 1.5s"),
            (Aggregation::Percentile(99.9), Operator::LessOrEqual, 1500.0)
        );
        assert_eq!(read("rate<0.01"), (Aggregation::Rate, Operator::Less, 0.01));
        assert_eq!(
            read("count>100"),
            (Aggregation::Count, Operator::Greater, 100.0)
        );
        assert_eq!(
            read("avg>=250us"),
            (Aggregation::Avg, Operator::GreaterOrEqual, 0.25)
        );
        assert_eq!(
            read("max!=2m"),
            (Aggregation::Max, Operator::Different, 120_000.0)
        );
        assert_eq!(
            read("value===7"),
            (Aggregation::Value, Operator::Equal, 7.0)
        );
        assert_eq!(read("med<500ms"), (Aggregation::Med, Operator::Less, 500.0));
    }

    #[test]
    fn keys() {
        let threshold =
            Threshold::new("http_req_duration{scenario:write, op:add-chain}", "p(95)<5").unwrap();
        assert_eq!(threshold.metric(), "http_req_duration");
        let tags = [("scenario", "write"), ("op", "add-chain")].map(|(n, v)| (n.into(), v.into()));
        assert_eq!(threshold.tags(), tags);
        let line = Threshold::parse("http_req_duration{scenario:write}: p(95)<5").unwrap();
        assert_eq!(
            (line.key.as_str(), line.expression.as_str()),
            ("http_req_duration{scenario:write}", "p(95)<5")
        );
        assert_eq!(
            Threshold::parse("http_req_failed:rate<0.01")
                .unwrap()
                .metric(),
            "http_req_failed"
        );
        let url = Threshold::new("m{url:http://a:1/}", "count>1").unwrap();
        assert_eq!(url.tags()[0].1, "http://a:1/");
    }

    #[test]
    fn mistakes_are_explained() {
        let cases = [
            ("http_req_duration", "p95<500", "is not an aggregation"),
            ("http_req_duration", "p(101)<500", "between 0 and 100"),
            ("http_req_duration", "p(95)<", "is not a number"),
            ("http_req_duration", "p(95)<fast", "is not a number"),
            ("http_req_duration", "p(95)", "an operator"),
            ("http_req_duration", "rate<0.1", "is a trend"),
            ("http_req_failed", "count<5", "is a rate: it has rate"),
            ("http_req_failed", "rate<5ms", "only durations"),
            ("http_reqs", "p(95)<5", "is a counter"),
            ("http_reqs{a:b", "count<5", "not closed"),
            ("http_reqs{}", "count<5", "no tags"),
            ("http_reqs{scenario}", "count<5", "name:value"),
            ("", "count<5", "not the name"),
            ("two words", "count<5", "not the name"),
        ];
        for (key, expression, expected) in cases {
            let error = Threshold::new(key, expression).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
        assert!(Threshold::parse("rate<0.1").is_err());
    }

    proptest! {
        #[test]
        fn nothing_makes_it_panic(key in "\\PC*", expression in "\\PC*", line in "\\PC*") {
            let _ = Threshold::new(&key, &expression);
            let _ = Threshold::parse(&line);
        }
    }
}
