use serde_json::{Value, json};

use super::*;

/// Returns the whole message for options that do not describe requests.
fn message(options: Value) -> String {
    let options: RestOptions = serde_json::from_value(options).unwrap();
    SharedState::new(options, 1).unwrap_err().to_string()
}

#[test]
fn the_message_begins_with_the_key() {
    let url = "https://a/";
    let step = json!([{ "url": url }]);
    for (options, expected) in [
        (
            json!({}),
            "`--url` (in a plan also `steps` or `requests`) is missing",
        ),
        (
            json!({ "url": url, "steps": step }),
            "`url`, `method`, `body`, `json`, `expect` and `checks` describe the one request; \
             with `steps`, write these keys in its items",
        ),
        (
            json!({ "url": url, "body": "hello", "headers": { "Content-Length": "4" } }),
            "headers.content-length: is `4`, but the body has 5 bytes; remove the header, which \
             the load test writes itself",
        ),
        (
            json!({ "steps": step, "requests": step }),
            "there are both `steps` and `requests`: remove one of them",
        ),
        (
            json!({ "url": url, "data": { "two words": "x.csv" } }),
            "data: `two words` is not a name: expected letters, digits and `_`",
        ),
        (
            json!({ "url": url, "data": { "users": "/no/such/file" } }),
            "data.users: the file `/no/such/file` cannot be read: No such file or directory (os \
             error 2)",
        ),
        (
            json!({ "url": url, "vars": { "counter": "x" } }),
            "vars: `counter` is the name of a built-in value: use another name",
        ),
        (
            json!({ "url": url, "vars": { "a": "{{b" } }),
            "vars.a: `{{b` has `{{` without its `}}`",
        ),
        (
            json!({ "url": url, "vars": { "a": "@/no/such/file" } }),
            "vars.a: the file `/no/such/file` cannot be read: No such file or directory (os error \
             2); to begin a text with @, write {{\"@\"}}…",
        ),
        (
            json!({ "requests": [{ "url": url, "capture": { "id": "/id" } }] }),
            "requests: `capture` keeps a value for one iteration, which is a single request here: \
             use `remember`",
        ),
        (
            json!({ "url": url, "targets": "/no/such/file" }),
            "`targets` contains the requests: remove `url`, `steps` and `requests`",
        ),
        (
            json!({ "targets": "/no/such/file" }),
            "targets: /no/such/file: cannot be read: No such file or directory (os error 2)",
        ),
    ] {
        assert_eq!(message(options), expected);
    }
}

#[test]
fn the_message_names_the_request_of_a_list() {
    let url = "https://a/";
    let step = json!([{ "url": url }]);
    for (options, expected) in [
        (
            json!({ "steps": [{ "url": url, "remember": { "counter": "/id" } }] }),
            "`counter` is the name of a built-in value: use another name",
        ),
        (
            json!({ "steps": [{ "url": url, "name": "a,b" }] }),
            "steps[0].name: `a,b` must not contain commas or braces",
        ),
        (
            json!({ "steps": [{ "url": url }, { "url": url }] }),
            "steps[1].name: `GET /` is the name of another request",
        ),
        (
            json!({ "steps": step, "setup": [{ "method": "POST" }] }),
            "setup[0].url: is missing",
        ),
        (
            json!({ "steps": step, "userSetup": [{ "url": url }, { "url": url }] }),
            "userSetup[1].name: `GET /` is the name of another request",
        ),
        (
            json!({ "steps": step, "teardown": [{ "url": "https://a/{{idd}}" }],
                "setup": [{ "url": url, "capture": { "id": "/id" } }] }),
            "teardown[0].url: `{{idd}}` is not a known value; did you mean `{{id}}`?",
        ),
        (
            json!({ "requests": [{ "url": url, "if": "id" }] }),
            "requests[0].if: is allowed only in `steps`",
        ),
        (
            json!({ "steps": step, "setup": [{ "url": url, "counters": { "it": {} } }] }),
            "setup[0].counters: is not counted outside the load: remove the key",
        ),
        (
            json!({ "steps": [{ "url": url, "counters": { "responses": {} } }] }),
            "steps[0].counters.responses: is a built-in metric: use another name",
        ),
        (
            json!({ "steps": [{ "url": url, "counters": { "orders_total": {} } }] }),
            "steps[0].counters.orders_total: `_total` is an ending of exported metrics: use \
             another name",
        ),
        (
            json!({ "steps": [{ "url": url, "if": "id" }] }),
            "steps[0].if: `{{id}}` is not a known value; known values: unique, iteration, user, \
             counter, random, pick, hex, uuid, now",
        ),
        (
            json!({ "steps": [{ "parallel": step }] }),
            "steps[0].parallel: needs HTTP/2; add `http: 2` to the options",
        ),
        (
            json!({ "setup": [{ "parallel": step }], "steps": step }),
            "setup[0].parallel: is allowed only in `steps`",
        ),
        (
            json!({ "..connection": { "..http": { "http": "2" } }, "steps": [{ "url": url, "parallel": step }] }),
            "steps[0].parallel: cannot be combined with other keys; write the keys in its items",
        ),
        (
            json!({ "..connection": { "..http": { "http": "2" } }, "steps": [{ "parallel": [{ "url": url }, { "url": "x" }] }] }),
            "steps[0].parallel[1].url: `x` has no scheme (https://), and there is no `baseUrl`",
        ),
        (
            json!({ "..connection": { "..http": { "http": "2" } }, "steps": [{ "parallel":
                [{ "url": url, "name": "a" }, { "url": "https://b/", "name": "b" }] }] }),
            "steps[0].parallel: all its requests must have the same scheme, host and port",
        ),
        (
            json!({ "requests": [{ "url": url, "weight": -1 }] }),
            "requests[0].weight: must be above 0",
        ),
        (
            json!({ "steps": [{ "url": url, "capture": { "id": "id" } }] }),
            "steps[0].`id` is not a JSON pointer: it must begin with a slash",
        ),
        (
            json!({ "steps": [{ "url": url, "checks": [{ "equals": "x" }] }] }),
            "steps[0].checks[0]: must name one place: `json: /pointer`, `header: name` or `body: true`",
        ),
    ] {
        assert_eq!(message(options), expected);
    }
}

#[test]
fn the_message_of_a_single_request_has_no_index() {
    let url = "https://a/";
    for (options, expected) in [
        (json!({ "url": "" }), "url: is missing"),
        (
            json!({ "url": "/a" }),
            "url: `/a` has no scheme (https://), and there is no `baseUrl`",
        ),
        (
            json!({ "url": "https://{{user}}.example/" }),
            "url: `https://{{user}}.example` has a template in its host: only the path can have templates",
        ),
        (
            json!({ "url": "https://" }),
            "url: `https://` is not a URL: empty host",
        ),
        (
            json!({ "url": "https://a/o k" }),
            "url: a URL cannot contain ' ': write %20",
        ),
        (
            json!({ "url": "https://a/{{unique}}?q=caf\u{e9}" }),
            "url: a URL cannot contain '\u{e9}': write %C3%A9",
        ),
        (
            json!({ "url": "https://a/{{uniqe}}" }),
            "url: `{{uniqe}}` is not a known value; did you mean `{{unique}}`?",
        ),
        (
            json!({ "url": url, "method": "G T" }),
            "method: `G T` is not an HTTP method",
        ),
        (
            json!({ "url": url, "body": "x", "json": {} }),
            "body: cannot be combined with `json`",
        ),
        (
            json!({ "url": url, "body": "{{" }),
            "body: `{{` has `{{` without its `}}`",
        ),
        (
            json!({ "url": url, "json": ["{{random}}"] }),
            "json: `{{random(…)}}` needs `to=` with a number",
        ),
        (
            json!({ "url": url, "headers": { "A": "{{x y}}" } }),
            "headers.A: `{{x y}}` is not a name: expected letters, digits and `_`",
        ),
        (
            json!({ "url": url, "checks": [{ "body": true, "type": "object" }] }),
            "checks[0]: `type` is for places in JSON",
        ),
        (
            json!({ "url": url, "checks": [{ "json": "/a", "exists": false, "equals": "x" }] }),
            "checks[0]: `exists: false` allows no other condition",
        ),
        (
            json!({ "url": url, "checks": [{ "json": "a" }] }),
            "checks[0]: `a` is not a JSON pointer: it must begin with a slash",
        ),
    ] {
        assert_eq!(message(options), expected);
    }
}

#[test]
fn the_method_of_a_target_has_no_key() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("targets");
    std::fs::write(&file, "{\"method\":\"G T\",\"url\":\"https://a/\"}\n").unwrap();
    assert_eq!(
        message(json!({ "targets": file })),
        format!("targets: {}: `G T` is not an HTTP method", file.display())
    );
}

#[test]
fn values_are_known_only_after_their_request() {
    let ask = |value: &str| json!([{ "url": format!("https://a/{{{{{value}}}}}") }]);
    let take = |name: &str| json!({ "url": "https://a/", "name": name, "capture": { name: "/x" } });
    let step = json!([{ "url": "https://a/" }]);
    let directory = tempfile::tempdir().unwrap();
    let rows = directory.path().join("rows.csv");
    std::fs::write(&rows, "name\nme\n").unwrap();
    for (mut options, key) in [
        (
            json!({ "setup": [ask("late")[0], take("late")] }),
            "setup[0]",
        ),
        (
            json!({ "setup": ask("own"), "userSetup": [take("own")] }),
            "setup[0]",
        ),
        (
            json!({ "teardown": ask("own"), "userSetup": [take("own")] }),
            "teardown[0]",
        ),
        (
            json!({ "setup": ask("rows.name"), "data": { "rows": rows } }),
            "setup[0]",
        ),
        (
            json!({ "steps": ask("end"), "teardown": [take("end")] }),
            "steps[0]",
        ),
        (
            json!({ "..connection": { "..http": { "http": "2" } }, "steps": [{ "parallel": [take("a"), ask("a")[0]] }] }),
            "steps[0].parallel[1]",
        ),
    ] {
        let map = options.as_object_mut().unwrap();
        map.entry("steps").or_insert_with(|| step.clone());
        let said = message(options);
        assert!(said.starts_with(&format!("{key}.url: `{{{{")), "{said}");
        assert!(said.contains("is not a known value"), "{said}");
    }
    let known = json!({
        "vars": { "v": "1" }, "data": { "rows": rows }, "..connection": { "..http": { "http": "2" } },
        "setup": [take("run"), ask("run")[0], { "name": "v", "url": "https://a/{{v}}" }],
        "userSetup": [ask("run")[0], { "name": "row", "url": "https://a/{{rows.name}}" }, take("own")],
        "teardown": ask("run"),
        "steps": [
            ask("own")[0], { "parallel": [take("a"), take("b")] },
            { "name": "both", "url": "https://a/{{a}}{{b}}{{run}}{{rows.name}}" },
        ],
    });
    let known: RestOptions = serde_json::from_value(known).unwrap();
    SharedState::new(known, 1).unwrap();
}

#[test]
fn a_value_lasts_either_for_an_iteration_or_longer() {
    let take = json!([{ "url": "https://a/", "capture": { "id": "/id" } }]);
    let step = json!([{ "url": "https://a/" }]);
    for options in [
        json!({ "setup": take, "steps": take }),
        json!({ "userSetup": take, "steps": take }),
        json!({ "setup": take, "steps": step, "vars": { "id": "1" } }),
    ] {
        assert_eq!(
            message(options),
            "`id` is a value of `setup` or `userSetup`, which lasts longer than an iteration: use \
             another name, or `remember`"
        );
    }
    // The values of `teardown` belong to the same request in each iteration.
    let options = json!({ "steps": take, "teardown": take });
    let state = SharedState::new(serde_json::from_value(options).unwrap(), 1).unwrap();
    assert_eq!(state.forgotten.len(), 1);
}

#[test]
fn keys_of_a_place_are_checked() {
    let wrong = |place: Value| {
        let steps = json!({ "steps": [{ "url": "https://a/", "capture": { "id": place } }] });
        let options: Result<RestOptions, _> = serde_json::from_value(steps);
        options.unwrap_err().to_string()
    };
    let said = wrong(json!({ "place": "/id", "optionl": true }));
    assert!(said.contains("unknown field `optionl`"), "{said}");
    let said = wrong(json!({ "place": "/id", "pick": "frist" }));
    assert!(said.contains("unknown variant `frist`"), "{said}");
    assert!(wrong(json!({ "pick": "random" })).contains("missing field `place`"));
    assert!(wrong(json!(7)).contains("expected a place, or a map"));
}
