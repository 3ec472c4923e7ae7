use super::*;
use crate::LogKey;
use proptest::prelude::*;
use serde_json::json;

fn key(n: u8) -> LogKey {
    LogKey::from_seed(&[n; 32]).unwrap()
}

fn base64(bytes: &[u8]) -> String {
    base64_simd::STANDARD.encode_to_string(bytes)
}

/// Returns a log as in real lists, with additional fields.
fn log(n: u8) -> Value {
    json!({
        "description": format!("Example '{n}' log"),
        "log_id": key(n).log_id().to_string(),
        "key": base64(key(n).public_key_spki()),
        "url": format!("https://log{n}.example/"),
        "mmd": 86400,
        "dns": "log.ct.example",
        "log_type": "prod",
        "state": {"usable": {"timestamp": "2024-05-01T18:54:00Z"}},
        "temporal_interval": {
            "start_inclusive": "2026-01-01T00:00:00Z",
            "end_exclusive": "2026-07-01T00:00:00Z"
        }
    })
}

fn list(logs: Vec<Value>) -> Value {
    json!({
        "version": "91.2",
        "log_list_timestamp": "2026-07-01T12:00:00.5Z",
        "is_all_logs": false,
        "operators": [{"name": "Example", "email": ["ct@log.example"], "logs": logs}]
    })
}

fn parse(value: &Value) -> LogList {
    LogList::parse(value.to_string().as_bytes()).unwrap()
}

#[test]
fn a_list_in_chromes_form() {
    let mut document = list(vec![log(1)]);
    document["operators"][0]["logs"][0]["state"] = json!({"readonly": {
        "timestamp": "2025-01-01T00:00:00Z",
        "final_tree_head": {"sha256_root_hash": "AA==", "tree_size": 7}
    }});
    document["operators"][0]["logs"][0]["previous_operators"] = json!([
        {"name": "Second", "end_time": "2025-01-01T00:00:00Z"},
        {"name": "First", "end_time": "2024-01-01T00:00:00Z"}
    ]);
    let mut tiled = log(2);
    tiled["submission_url"] = json!("https://submit.example/2026h1/");
    tiled["monitoring_url"] = json!("https://read.example/2026h1/");
    tiled["url"] = Value::Null;
    tiled["state"] = json!({"retired": {"timestamp": "2025-06-01T00:00:00Z"}});
    document["operators"][0]["tiled_logs"] = json!([tiled]);

    let list = parse(&document);
    assert_eq!((list.len(), list.skipped().len()), (2, 0));
    assert_eq!(list.version(), Some("91.2"));
    assert_eq!(list.timestamp_ms(), Some(1_782_907_200_500));
    let classic = list.get(&key(1).log_id()).unwrap();
    assert_eq!(classic.description, "Example '1' log");
    assert_eq!(classic.mmd, 86_400);
    assert_eq!(classic.submission_url(), "https://log1.example/");
    let state = classic.state.unwrap();
    assert_eq!(state.status, LogStatus::ReadOnly);
    assert_eq!(state.since_ms, 1_735_689_600_000);
    let interval = classic.temporal_interval.clone().unwrap();
    assert_eq!(interval, 1_767_225_600_000..1_782_864_000_000);
    for (at, operator) in [
        (0, "First"),
        (1_704_067_199_999, "First"),
        (1_704_067_200_000, "Second"),
        (1_735_689_600_000, "Example"),
    ] {
        assert_eq!(classic.operator_at(at), operator, "{at}");
    }
    let tiled = list.get(&key(2).log_id()).unwrap();
    assert_eq!(tiled.submission_url(), "https://submit.example/2026h1/");
    assert!(matches!(tiled.api, LogApi::Static { .. }));
    assert!(list.get(&key(3).log_id()).is_none());
}

/// Apple's list has a number as the version, no timestamp and no interval.
#[test]
fn a_list_in_apples_form() {
    let mut document = list(vec![log(1)]);
    let log = document["operators"][0]["logs"][0].as_object_mut().unwrap();
    log.remove("temporal_interval");
    log.remove("description");
    log.insert("tls_only".into(), json!(true));
    document["version"] = json!(61);
    document["assetVersion"] = json!(1000);
    let list = parse(&document);
    assert_eq!(list.version(), Some("61"));
    let log = list.iter().next().unwrap();
    assert_eq!(log.temporal_interval, None);
    assert_eq!(log.description, key(1).log_id().to_string());
}

/// Each change makes the second log invalid; the first log stays, and the reason is reported.
#[test]
fn a_log_that_is_wrong_is_left_out_with_a_reason() {
    for (field, value, why) in [
        (
            "log_id",
            json!(key(3).log_id().to_string()),
            "not the SHA-256",
        ),
        ("log_id", json!("AA=="), "not the SHA-256"),
        ("log_id", json!("?"), "`log_id` is not base64"),
        ("log_id", json!(7), "`log_id` is missing"),
        ("key", json!("AA=="), "neither ECDSA"),
        ("key", Value::Null, "`key` is missing"),
        ("url", Value::Null, "`url` is missing"),
        (
            "state",
            json!({"retried": {"timestamp": "2024-05-01T18:54:00Z"}}),
            "`retried`",
        ),
        ("state", json!({"usable": {}}), "`timestamp` is missing"),
        (
            "state",
            json!({"usable": {"timestamp": "yesterday"}}),
            "`yesterday`",
        ),
        ("state", json!("usable"), "not an object"),
        (
            "state",
            json!({"usable": {"timestamp": "2024-05-01T18:54:00Z"}, "retired": {}}),
            "more than one",
        ),
        (
            "temporal_interval",
            json!({"start_inclusive": "2026-07-01T00:00:00Z", "end_exclusive": "2026-07-01T00:00:00Z"}),
            "ends before",
        ),
        (
            "temporal_interval",
            json!({}),
            "`start_inclusive` is missing",
        ),
        (
            "previous_operators",
            json!([{"end_time": "2024-01-01T00:00:00Z"}]),
            "no `name`",
        ),
    ] {
        let mut document = list(vec![log(1), log(2)]);
        document["operators"][0]["logs"][1][field] = value.clone();
        let list = parse(&document);
        assert_eq!(list.len(), 1, "{field}: {value}");
        let [skipped] = list.skipped() else {
            panic!("{field}: {value}: {:?}", list.skipped());
        };
        assert!(
            skipped.why.to_string().contains(why),
            "{field}: {value}: {skipped}"
        );
        assert_eq!(skipped.log, "Example '2' log");
    }
}

#[test]
fn what_cannot_be_in_a_list() {
    // The same key twice is invalid, regardless of the operator.
    let mut document = list(vec![log(1)]);
    let operators = document["operators"].as_array_mut().unwrap();
    operators.push(json!({"name": "Other", "logs": [log(1)]}));
    let read = parse(&document);
    assert_eq!(read.get(&key(1).log_id()).unwrap().operator, "Example");
    assert!(read.skipped()[0].why.to_string().contains("the same key"));
    // The logs of an operator without a name cannot count.
    document["operators"][1] = json!({"logs": [log(2)]});
    assert!(
        parse(&document).skipped()[0]
            .why
            .to_string()
            .contains("operator")
    );

    let error = |text: &str| LogList::parse(text.as_bytes()).unwrap_err().to_string();
    for text in ["", "<html>", "[1, 2]", "{}", r#"{"operators": {}}"#] {
        assert!(error(text).contains("not a log list"), "{text}");
    }
    assert!(error(r#"{"operators": []}"#).contains("no usable log"));
    let mut nothing = list(vec![log(1)]);
    nothing["operators"][0]["logs"][0]["key"] = json!("");
    let text = error(&nothing.to_string());
    assert!(
        text.contains("Example '1' log") && text.contains("neither"),
        "{text}"
    );
}

#[test]
fn keys_that_everybody_has_prove_nothing() {
    for id in MIMICS {
        assert_eq!(base64_simd::STANDARD.decode_to_vec(id).unwrap().len(), 32);
    }
}

proptest! {
    /// Replaces any single value of a valid list: the list is parsed or refused, and no log ever
    /// has an ID that differs from the hash of its key.
    #[test]
    fn nothing_makes_it_panic(place in 0..40usize, with in 0..8usize) {
        let mut document = list(vec![log(1), log(2)]);
        let mut left = place;
        replace(&mut document, &mut left, &[
            Value::Null, json!(true), json!(-1), json!(1e300), json!(""), json!([]), json!({}),
            json!("é".repeat(99)),
        ][with]);
        if let Ok(list) = LogList::parse(document.to_string().as_bytes()) {
            for log in list.iter() {
                prop_assert_eq!(log.key.log_id(), log.log_id);
            }
        }
    }
}

fn replace(value: &mut Value, left: &mut usize, with: &Value) {
    if *left == 0 {
        *value = with.clone();
    }
    *left = left.wrapping_sub(1);
    match value {
        Value::Array(members) => members.iter_mut().for_each(|v| replace(v, left, with)),
        Value::Object(members) => members.values_mut().for_each(|v| replace(v, left, with)),
        _ => {}
    }
}
