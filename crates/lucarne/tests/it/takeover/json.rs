//! The JSON output of `adopt` and `give-back`.

use super::adopt::{SUNLIGHT, tesseract};
use super::*;

/// Runs `lucarne` with `--json`. Returns the exit code and the objects.
fn objects(log: &Taken, args: &[&str]) -> (i32, Vec<Value>) {
    let launch = lucarne_testkit::Launch::new(LUCARNE).args(args);
    let output = launch.arg("--json").directory(log.path()).run().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let objects = text.lines().map(|line| serde_json::from_str(line).unwrap());
    (output.status.code().unwrap(), objects.collect())
}

/// Returns the checks with their verdicts, in order.
fn checks(objects: &[Value]) -> Vec<(&str, &str)> {
    let checks = objects
        .iter()
        .filter(|object| object.get("check").is_some());
    checks
        .inspect(|check| assert!(check["detail"].is_string(), "{check}"))
        .map(|check| {
            let [what, verdict] = ["check", "verdict"].map(|name| check[name].as_str());
            (what.unwrap(), verdict.unwrap())
        })
        .collect()
}

const LOOKED_AT: [&str; 10] = [
    "writable",
    "immutable",
    "cache",
    "holder",
    "roots",
    "checkpoint",
    "lock",
    ".state",
    "files",
    "stopped",
];

fn all_right(but: &'static str) -> Vec<(&'static str, &'static str)> {
    let checks = LOOKED_AT.into_iter().filter(|check| *check != but);
    checks.map(|check| (check, "right")).collect()
}

#[test]
fn each_line_is_an_object_with_its_code() {
    let Some((log, flags)) = tesseract() else {
        return;
    };
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let with = |command: &[&'static str]| [command, &flags[..]].concat();
    let (code, looked) = objects(&log, &with(&["adopt", "--check"]));
    assert_eq!((code, checks(&looked)), (0, all_right("")), "{looked:?}");
    let last = looked.last().unwrap();
    assert_eq!(last["verdict"], "adoptable");
    assert_eq!(last["entries"], 2091);

    let state = log.path().join("store/.state/treeState");
    edit(&state, "2091", "2092");
    let (code, refused) = objects(&log, &with(&["adopt"]));
    let mut expected = all_right("");
    expected[7].1 = "refused";
    assert_eq!((code, checks(&refused)), (1, expected), "{refused:?}");
    assert_eq!(refused.last().unwrap()["verdict"], "refused");
    edit(&state, "2092", "2091");

    let (code, done) = objects(&log, &with(&["adopt"]));
    let mut expected = all_right("");
    expected.push(("index", "right"));
    assert_eq!((code, checks(&done)), (0, expected), "{done:?}");
    let note = done[done.len() - 2]["note"].as_str().unwrap();
    assert_has(note, "is now at 2091 entries");
    assert_eq!(done.last().unwrap()["verdict"], "adopted");

    let (code, given) = objects(&log, &with(&["give-back", "--to", "tesseract"]));
    let expected = [".state", "stopped", "lock", "files"].map(|check| (check, "right"));
    assert_eq!((code, checks(&given)), (0, expected.to_vec()), "{given:?}");
    let last = given.last().unwrap();
    assert_eq!(last["verdict"], "given back");
    assert_eq!(last["entries"], 2091);
    fs::write(log.path().join("store/.state/version"), "2").unwrap();
    let (code, refused) = objects(&log, &with(&["give-back", "--to", "tesseract"]));
    assert_eq!((code, checks(&refused)), (1, vec![(".state", "refused")]));
    assert_eq!(refused.last().unwrap()["verdict"], "refused");
}

/// A lock that cannot be read is `untold`, and an invalid configuration is refused.
#[test]
fn failures_before_the_checks_have_a_verdict() {
    let Some(log) = Taken::sunlight("sunlight-clean", "sun2027h1") else {
        return;
    };
    fs::write(log.path().join("checkpoints.db"), "no database").unwrap();
    let (code, said) = objects(&log, &[&SUNLIGHT[..], &["--check"]].concat());
    let mut expected = all_right(".state");
    expected[6].1 = "untold";
    assert_eq!((code, checks(&said)), (2, expected), "{said:?}");
    assert_eq!(said.last().unwrap()["verdict"], "untold");
    edit(
        &log.path().join("sunlight.yaml"),
        "period: 200",
        "period: soon",
    );
    let give_back = ["give-back", "-c", "sunlight.yaml", "--to", "sunlight"];
    for command in [&SUNLIGHT[..], &give_back] {
        let (code, said) = objects(&log, command);
        assert_eq!(
            (code, checks(&said)),
            (1, vec![("configuration", "refused")]),
            "{said:?}"
        );
        assert_eq!(said.last().unwrap()["verdict"], "refused");
    }
}
