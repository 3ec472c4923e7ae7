//! The alerting rules and dashboards of `deploy` fit the metrics and pages of `docs`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use crate::common::all;
use lucarne_settings::{Node, Value, tree};
use lucarne_testkit::temp_dir;
use serde_json::{Value as Json, json};

pub(crate) const ALERTS: &str = "deploy/prometheus/alerts.yaml";
const TESTS: &str = "deploy/prometheus/alerts.test.yaml";
pub(crate) const DASHBOARDS: [&str; 4] = ["load", "log", "proxy", "stores"];

pub(crate) fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

pub(crate) fn read(file: &str) -> String {
    let file = root().join(file);
    fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

pub(crate) fn yaml(file: &str) -> Node {
    let parsed = tree::parse(&read(file));
    parsed.unwrap_or_else(|error| panic!("{file}:{}: {}", error.line, error.message))
}

/// Returns the node under a key of a map.
pub(crate) fn at<'n>(node: &'n Node, key: &str) -> &'n Node {
    let Value::Map(entries) = &node.value else {
        panic!("line {}: expected a map with `{key}`", node.line);
    };
    let entry = entries.iter().find(|entry| entry.key == key);
    match entry {
        Some(entry) => &entry.value,
        None => panic!("line {}: `{key}` is missing", node.line),
    }
}

pub(crate) fn list(node: &Node) -> &[Node] {
    match &node.value {
        Value::List(items) => items,
        other => panic!(
            "line {}: expected a list, found {}",
            node.line,
            other.kind()
        ),
    }
}

pub(crate) fn text(node: &Node) -> &str {
    match &node.value {
        Value::Scalar(text) => text,
        other => panic!(
            "line {}: expected a text, found {}",
            node.line,
            other.kind()
        ),
    }
}

/// Exported series with their labels.
type Series = BTreeMap<String, BTreeSet<String>>;

/// Reads the series that `docs/reference/metrics.md` documents. A histogram exports three.
fn documented() -> Series {
    let mut series = Series::new();
    for line in read("docs/reference/metrics.md").lines() {
        if !line.starts_with("| `lucarne_") {
            continue;
        }
        let cells: Vec<&str> = line.trim_start_matches("| ").split(" | ").collect();
        let name = cells[0].trim_matches('`');
        let labels = cells[2].split('`').skip(1).step_by(2);
        let mut labels: BTreeSet<String> = labels.map(str::to_owned).collect();
        labels.extend(["job".to_owned(), "instance".to_owned()]);
        if cells[1] == "histogram" {
            for part in ["sum", "count"] {
                series.insert(format!("{name}_{part}"), labels.clone());
            }
            labels.insert("le".to_owned());
            series.insert(format!("{name}_bucket"), labels);
        } else {
            series.insert(name.to_owned(), labels);
        }
    }
    assert!(series.len() > 100, "{} series", series.len());
    series
}

/// The series of Lucarne in a query, each with the labels that its selector names.
fn queried(query: &str) -> Vec<(&str, Vec<&str>)> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let starts = query.match_indices("lucarne_");
    starts
        .map(|(start, _)| {
            let rest = &query[start..];
            let end = rest.find(|c: char| !is_name(c)).unwrap_or(rest.len());
            let (name, rest) = rest.split_at(end);
            let selector = rest.strip_prefix('{').and_then(|rest| rest.split_once('}'));
            let matchers = selector.map_or("", |(matchers, _)| matchers).split(',');
            let labels = matchers.filter_map(|matcher| matcher.split(['=', '!']).next());
            let labels = labels.map(str::trim).filter(|label| !label.is_empty());
            (name, labels.collect())
        })
        .collect()
}

/// Checks that a query has documented series, and selects by labels that these have.
fn check(query: &str, series: &Series, place: &str) {
    let found = queried(query);
    assert!(
        !found.is_empty() || query.starts_with("up{"),
        "{place}: `{query}` has no metric of Lucarne"
    );
    for (name, labels) in found {
        let Some(known) = series.get(name) else {
            panic!("{place}: `{name}` is not in docs/reference/metrics.md");
        };
        for label in labels {
            assert!(known.contains(label), "{place}: `{name}` has no `{label}`");
        }
    }
}

fn rules(document: &Node) -> Vec<&Node> {
    let groups = list(at(document, "groups")).iter();
    groups.flat_map(|group| list(at(group, "rules"))).collect()
}

fn series_of(test: &Node) -> impl Iterator<Item = &str> {
    let series = list(at(test, "input_series")).iter();
    series.map(|series| text(at(series, "series")))
}

/// The alerts that fire in a test, and are quiet in the same test at an earlier time.
fn tested(tests: &[Node]) -> BTreeSet<&str> {
    let mut tested: BTreeSet<&str> = BTreeSet::new();
    for test in tests {
        let mut quiet: BTreeSet<&str> = BTreeSet::new();
        let mut fires: BTreeSet<&str> = BTreeSet::new();
        for case in list(at(test, "promql_expr_test")) {
            let named = text(at(case, "expr")).split_once("alertname=\"");
            let alert = named.and_then(|(_, rest)| rest.split('"').next());
            let is_quiet = list(at(case, "exp_samples")).is_empty();
            if is_quiet {
                quiet.extend(alert);
            } else {
                fires.extend(alert);
            }
        }
        tested.extend(fires.intersection(&quiet).copied());
    }
    tested
}

#[test]
fn each_alert_has_documented_metrics_a_runbook_and_a_unit_test() {
    let (series, document, tests) = (documented(), yaml(ALERTS), yaml(TESTS));
    let tests = list(at(&tests, "tests"));
    let healthy: BTreeSet<&str> = series_of(&tests[0])
        .flat_map(queried)
        .map(|(name, _)| name)
        .collect();
    let tested = tested(tests);
    let rules = rules(&document);
    assert!(rules.len() > 30, "{} rules", rules.len());
    let mut alerts = BTreeSet::new();
    for rule in rules {
        let alert = text(at(rule, "alert"));
        let query = text(at(rule, "expr"));
        assert!(alerts.insert(alert), "{alert} is defined twice");
        check(query, &series, alert);
        for (name, _) in queried(query) {
            assert!(
                healthy.contains(name),
                "{TESTS}: the healthy series lack `{name}`"
            );
        }
        let severity = text(at(at(rule, "labels"), "severity"));
        assert!(["page", "ticket"].contains(&severity), "{alert}");
        let annotations = at(rule, "annotations");
        for key in ["summary", "description"] {
            assert!(text(at(annotations, key)).len() > 10, "{alert}: {key}");
        }
        runbook(text(at(annotations, "runbook")), alert);
    }
    assert_eq!(alerts, tested, "{ALERTS} and {TESTS}");
}

/// The tests must name existing series and labels. Otherwise an alert would fire in its test, and
/// nowhere else.
#[test]
fn unit_tests_of_alerts_have_documented_series() {
    let (series, tests) = (documented(), yaml(TESTS));
    for test in list(at(&tests, "tests")) {
        for name in series_of(test) {
            check(name, &series, TESTS);
        }
    }
}

/// `docs/how-to/watch.md` has a row for each metric that alerts use, with these alerts.
#[test]
fn the_documentation_lists_the_alerts_of_each_metric() {
    let document = yaml(ALERTS);
    let mut alerts: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for rule in rules(&document) {
        for (name, _) in queried(text(at(rule, "expr"))) {
            let suffixes = ["_bucket", "_count", "_sum"];
            let family = suffixes.iter().find_map(|part| name.strip_suffix(part));
            let named = alerts.entry(family.unwrap_or(name)).or_default();
            named.insert(text(at(rule, "alert")));
        }
    }
    let rows: Vec<String> = alerts
        .into_iter()
        .map(|(metric, alerts)| {
            let alerts: Vec<_> = alerts.iter().map(|alert| format!("`{alert}`")).collect();
            format!("| `{metric}` | {} |", alerts.join(", "))
        })
        .collect();
    let page = read("docs/how-to/watch.md");
    let found: Vec<&str> = page
        .lines()
        .filter(|line| line.starts_with("| `lucarne_"))
        .collect();
    assert_eq!(found, rows, "docs/how-to/watch.md");
}

/// Checks that the page and the heading of a runbook exist.
fn runbook(place: &str, alert: &str) {
    let Some((page, anchor)) = place.split_once('#') else {
        panic!("{alert}: `{place}` names no heading");
    };
    let mut in_code = false;
    let found = read(page).lines().any(|line| {
        if line.starts_with("```") {
            in_code = !in_code;
        }
        !in_code && line.starts_with('#') && anchor_of(line) == anchor
    });
    assert!(found, "{alert}: {page} has no heading for `#{anchor}`");
}

/// The anchor of a heading, as GitHub forms it.
fn anchor_of(heading: &str) -> String {
    let heading = heading.trim_start_matches('#').trim().to_lowercase();
    let kept = heading
        .chars()
        .filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

pub(crate) fn dashboard(name: &str) -> Json {
    let file = format!("deploy/grafana/{name}.json");
    serde_json::from_str(&read(&file)).unwrap_or_else(|error| panic!("{file}: {error}"))
}

/// The queries of the panels of a dashboard.
pub(crate) fn queries(dashboard: &Json) -> Vec<&str> {
    let panels = dashboard["panels"].as_array().unwrap().iter();
    let targets = panels.filter_map(|panel| panel["targets"].as_array());
    targets
        .flatten()
        .map(|target| target["expr"].as_str().unwrap())
        .collect()
}

#[test]
fn each_dashboard_has_documented_metrics_and_a_selectable_data_source() {
    let series = documented();
    let mut names = BTreeSet::new();
    for name in DASHBOARDS {
        let dashboard = dashboard(name);
        assert!(dashboard["schemaVersion"].as_u64() >= Some(39), "{name}");
        assert!(names.insert(dashboard["uid"].as_str().unwrap().to_owned()));
        let variables = dashboard["templating"]["list"].as_array().unwrap();
        assert_eq!(variables[0]["type"], "datasource", "{name}");
        for variable in &variables[1..] {
            let query = variable["query"]["query"].as_str().unwrap();
            check(query, &series, name);
            assert_eq!(variable["datasource"]["uid"], "${datasource}", "{name}");
        }
        let mut ids = BTreeSet::new();
        for panel in dashboard["panels"].as_array().unwrap() {
            let title = panel["title"].as_str().unwrap();
            assert!(ids.insert(panel["id"].as_u64()), "{name}: {title}");
            if panel["type"] != "row" {
                assert_eq!(
                    panel["datasource"]["uid"], "${datasource}",
                    "{name}: {title}"
                );
                assert!(panel["description"].as_str().unwrap().len() > 1, "{title}");
            }
        }
        let queries = queries(&dashboard);
        assert!(queries.len() > 15, "{name}: {} queries", queries.len());
        for query in queries {
            check(query, &series, name);
        }
    }
}

/// Runs promtool in the directory of the rules.
fn promtool(arguments: &[&str]) -> Output {
    let mut promtool = Command::new("promtool");
    let directory = root().join("deploy/prometheus");
    let output = promtool.args(arguments).current_dir(directory).output();
    output.expect("promtool is missing: run scripts/install-test-tools (cargo xtask test does)")
}

/// Prometheus reads the rules, their tests pass, and it reads the queries of the dashboards and
/// the configuration of docs/how-to/watch.md.
#[test]
fn promtool_accepts_rules_queries_and_configuration() {
    let directory = temp_dir();
    let dashboards = DASHBOARDS.map(dashboard);
    let queries = dashboards.iter().flat_map(queries);
    let rules = queries.enumerate().map(|(number, query)| {
        let query = ["$instance", "$log", "$user"].iter().fold(
            query.replace("$__rate_interval", "5m"),
            |query, variable| query.replace(variable, ".*"),
        );
        json!({"record": format!("query:{number}"), "expr": query})
    });
    let rules: Vec<Json> = rules.collect();
    let rules = json!({"groups": [{"name": "queries", "rules": rules}]});
    let page = read("docs/how-to/watch.md");
    let configuration = page.split("```yaml\n").nth(1).unwrap();
    let configuration = configuration.split("```").next().unwrap();
    let write = |name: &str, text: &str| {
        let file = directory.path().join(name);
        fs::write(&file, text).unwrap();
        file.to_str().unwrap().to_owned()
    };
    let rules = write("queries.yaml", &rules.to_string());
    let configuration = write("prometheus.yaml", configuration);
    for arguments in [
        &["check", "rules", "alerts.yaml"][..],
        &["test", "rules", "alerts.test.yaml"],
        &["check", "rules", &rules],
        &["check", "config", "--syntax-only", &configuration],
    ] {
        let output = promtool(arguments);
        assert!(output.status.success(), "{arguments:?}\n{}", all(&output));
    }
}
