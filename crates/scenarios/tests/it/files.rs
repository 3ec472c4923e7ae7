//! Bodies, headers, values and complete requests from files.
#![allow(clippy::unwrap_used)]

use std::path::Path;

use lucarne_load::Verdict;
use lucarne_load::plan::Plan;
use lucarne_settings::Report;

use crate::api::Api;
use crate::rest_tls::{REST, run};

/// Runs six iterations of these options by one user.
fn plan(options: &str) -> String {
    let options = format!("{REST}{options}");
    let options: String = options
        .lines()
        .map(|line| format!("      {line}\n"))
        .collect();
    format!(
        "scenarios:\n  s:\n    scenario: rest\n    executor: constant-vus\n    vus: 1\n    \
         duration: 60s\n    iterations: 6\n    options:\n{options}"
    )
}

/// Writes a file and returns its path.
fn file(directory: &Path, name: &str, content: &[u8]) -> String {
    let path = directory.join(name);
    std::fs::write(&path, content).unwrap();
    path.display().to_string()
}

#[test]
fn bodies_headers_and_values_come_from_files() {
    let api = Api::start();
    let directory = tempfile::tempdir().unwrap();
    let at = |name, content: &[u8]| file(directory.path(), name, content);
    let thing = at("thing.json", b"{\"name\": \"a{{b\", \"sans\": []}");
    let template = at(
        "template.json",
        b"{\"name\": \"{{name}}-{{iteration}}\", \"sans\": []}\n",
    );
    let token = at("token", b"Bearer secret\n");
    let name = at("name", b"from-a-file\n");
    let options = format!(
        "headers: {{ Authorization: \"@{token}\" }}\nvars: {{ name: \"@{name}\" }}\nsteps:\n\
         - name: bytes\n  url: /things\n  body: \"@{thing}\"\n  expect: 201\n  \
         checks: [{{ json: /name, equals: \"a{{{{'{{{{'}}}}b\" }}]\n\
         - name: template\n  url: /things\n  json: \"@{template}\"\n  expect: 201\n  \
         checks: [{{ json: /name, equals: \"from-a-file-{{{{iteration}}}}\" }}]\n"
    );
    // Remove the headers of the common plan, because the options have headers, too.
    let plan = plan(&options).replace("      headers: { Authorization: Bearer secret }\n", "");
    let outcome = run(&plan, &api);
    assert_eq!(
        outcome.verdict,
        Verdict::Passed,
        "{:?} {:#?}",
        outcome.error,
        outcome.summary.errors
    );
    assert_eq!(api.seen.names.lock().len(), 7);
}

#[test]
fn rows_of_files_go_from_iteration_to_iteration() {
    let api = Api::start();
    let directory = tempfile::tempdir().unwrap();
    let at = |name, content: &[u8]| file(directory.path(), name, content);
    let users = at("users.csv", b"name,unused\nalice,1\n\"bob, jr\",2\n");
    let things = at("things.json", b"[{\"id\": 1}, {\"id\": 2}, {\"id\": 3}]");
    let options = format!(
        "data:\n  users: {users}\n  things: {{ file: {things}, scope: user }}\nsteps:\n\
         - url: /things\n  name: make\n  json: {{ name: \"{{{{users.name}}}}/{{{{things.id}}}}\", sans: [] }}\n  expect: 201\n"
    );
    let outcome = run(&plan(&options), &api);
    assert_eq!(
        outcome.verdict,
        Verdict::Passed,
        "{:?} {:#?}",
        outcome.error,
        outcome.summary.errors
    );
    let mut names: Vec<_> = api.seen.names.lock().iter().cloned().collect();
    names.sort();
    let all = [
        "alice/1",
        "alice/2",
        "alice/3",
        "bob, jr/1",
        "bob, jr/2",
        "bob, jr/3",
    ];
    assert_eq!(names, all);
}

#[test]
fn requests_come_from_files_of_vegeta() {
    let api = Api::start();
    let directory = tempfile::tempdir().unwrap();
    let at = |name, content: &[u8]| file(directory.path(), name, content);
    let body = at("body.json", b"{\"name\": \"from vegeta\", \"sans\": []}");
    let http = format!(
        "GET {0}/list?a={{{{user}}}}\nX-One: 1\n\nPOST {0}/things\n@{body}\n\nGET {0}/list\n",
        api.url
    );
    let http = at("targets.http", http.as_bytes());
    let outcome = run(
        &plan(&format!("targets: {http}\n")).replace("${URL}", ""),
        &api,
    );
    assert_eq!(
        outcome.verdict,
        Verdict::Passed,
        "{:?} {:#?}",
        outcome.error,
        outcome.summary.errors
    );
    assert!(api.seen.names.lock().contains("from vegeta"));
    let paths = api.seen.paths.lock().clone();
    assert_eq!(paths.iter().filter(|path| *path == "/list").count(), 4);
    assert_eq!(paths.iter().filter(|path| *path == "/things").count(), 2);
}

#[test]
fn what_is_wrong_with_files_is_said_before_the_run() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name, content: &[u8]| file(directory.path(), name, content);
    let users = at("users.csv", b"name\nalice\n");
    let empty = at("empty.csv", b"name\n");
    for (options, why) in [
        (
            "url: /a\nbody: \"@/no/such\"\n".to_owned(),
            "`/no/such` cannot be read",
        ),
        (
            "url: /a\njson: \"@/no/such\"\n".to_owned(),
            "`/no/such` cannot be read",
        ),
        (
            "url: /a\nvars: { a: \"@/no/such\" }\n".to_owned(),
            "`/no/such` cannot be read",
        ),
        ("targets: /no/such\n".to_owned(), "targets: /no/such: "),
        (
            "targets: a\nurl: /a\n".to_owned(),
            "`targets` contains the requests",
        ),
        (
            format!("url: /a\ndata: {{ users: {empty} }}\n"),
            "has no rows",
        ),
        (
            format!("url: \"/{{{{users.nam}}}}\"\ndata: {{ users: {users} }}\n"),
            "did you mean `{{users.name}}`?",
        ),
    ] {
        let mut report = Report::on(None);
        let lookup = |_: &str| Some("https://127.0.0.1:1".to_owned());
        let plan = Plan::parse(
            &plan(&options),
            &lucarne_scenarios::scenarios(),
            &lookup,
            &mut report,
        );
        let said = report.problem_lines().join("\n");
        assert!(plan.is_none() && said.contains(why), "{options}: {said}");
    }
}
