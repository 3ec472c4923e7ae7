//! `lucarne lint` in a pipeline: files, exit codes, JSON.

use std::fs;

use lucarne_ct::{Certificate, LogKey, Sct, embedded_entry, encode_sct_list};
use lucarne_mint::{Extension, Template, extension, now_ms, oid, pem};
use lucarne_testkit::{TempDir, temp_dir};
use serde_json::{Value, json};

use crate::common::{assert_has, lucarne, pki};

fn log_key(n: u8) -> LogKey {
    LogKey::from_seed(&[n; 32]).unwrap()
}

/// Creates a directory with a log list, an issuer, a precertificate, and certificates that are
/// valid or lack the extensions of their second SCT.
fn files() -> TempDir {
    let directory = temp_dir();
    let write = |name: &str, der: &[u8]| {
        fs::write(directory.path().join(name), pem::encode("CERTIFICATE", der)).unwrap();
    };
    let ca = &pki().p256;
    let template = ca.leaf_template(&pki().leaf("lint.example")).unwrap();
    let bare = ca.sign(&template).unwrap();
    let issuer = Certificate::parse(ca.cert_der()).unwrap();
    let entry = embedded_entry(&Certificate::parse(&bare).unwrap(), &issuer);
    let scts = [1, 2].map(|n| log_key(n).sign_sct(now_ms() - 1000, &entry, 7).unwrap());
    let dropped = Sct {
        extensions: vec![],
        ..scts[1].clone()
    };
    let with = |scts: &[Sct]| {
        let list = encode_sct_list(scts).unwrap();
        let mut template = template.clone();
        let list = Extension::new(oid::SCT_LIST, false, |der| der.octet_string(&list));
        template.extensions.push(list);
        ca.sign(&template).unwrap()
    };
    let precertificate = {
        let mut template: Template = template.clone();
        template.extensions.push(extension::poison());
        ca.sign(&template).unwrap()
    };
    write("good.pem", &with(&scts));
    write("broken.pem", &with(&[scts[0].clone(), dropped]));
    write("pre.pem", &precertificate);
    write("issuer.pem", ca.cert_der());
    fs::write(directory.path().join("good.der"), with(&scts)).unwrap();
    let operators = [("A", 1), ("B", 2)].map(|(name, n)| {
        let key = log_key(n);
        let log = json!({
            "description": format!("log {name}"), "log_id": key.log_id().to_string(),
            "key": base64_simd::STANDARD.encode_to_string(key.public_key_spki()),
            "url": "https://log.example/", "submission_url": "https://log.example/",
            "monitoring_url": "https://log.example/",
            "state": {"usable": {"timestamp": "2022-01-01T00:00:00Z"}}
        });
        let member = if n == 2 { "tiled_logs" } else { "logs" };
        json!({"name": name, member: [log]})
    });
    let list = json!({"operators": operators}).to_string();
    fs::write(directory.path().join("list.json"), list).unwrap();
    directory
}

#[test]
fn exit_codes_are_for_pipelines() {
    let directory = files();
    let run = |args: &[&str]| lucarne(directory.path(), &[&["lint"], args].concat());
    let known = ["--log-list", "list.json", "--issuer", "issuer.pem"];
    let with = |files: &[&str]| run(&[files, &known[..]].concat());

    let (code, said) = with(&["good.pem", "pre.pem"]);
    assert_eq!(code, 0, "{said}");
    assert_has(&said, "good.pem: certificate");
    assert_has(
        &said,
        "Chrome: enough: SCTs (embedded) of 2 logs of 2 operators",
    );
    assert_eq!(with(&["good.der"]).0, 0);

    let (code, said) = with(&["broken.pem"]);
    assert_eq!(code, 1, "{said}");
    assert_has(&said, "✗ sct-extensions-dropped: SCT 1: ");

    // A certificate that was not verified does not pass: without a list, an issuer or the file.
    for (args, why) in [
        (&["good.pem", "--issuer", "issuer.pem"][..], "no-log-list"),
        (&["good.pem", "--log-list", "list.json"], "no-issuer"),
        (&["none.pem"], "unread"),
    ] {
        let (code, said) = run(args);
        assert_eq!(code, 2, "{said}");
        assert_has(&said, why);
    }
    assert_eq!(run(&["good.pem", "--log-list", "none.json"]).0, 2);
    assert_eq!(run(&["good.pem", "--at", "yesterday"]).0, 2);
    assert_eq!(run(&[]).0, 2);
    // An invalid certificate outweighs an unverified one.
    let (code, _) = run(&[
        "broken.pem",
        "none.pem",
        "--log-list",
        "list.json",
        "--issuer",
        "issuer.pem",
    ]);
    assert_eq!(code, 1);
    // Before their timestamps, the SCTs are from the future.
    let (code, said) = with(&["good.pem", "--at", "2023-01-01"]);
    assert_eq!(code, 1, "{said}");
    assert_has(&said, "sct-from-the-future");
}

#[test]
fn json_is_an_object_for_each_file() {
    let directory = files();
    let args = "lint broken.pem pre.pem --json --log-list list.json --issuer issuer.pem";
    let args: Vec<_> = args.split(' ').collect();
    let (code, said) = lucarne(directory.path(), &args);
    assert_eq!(code, 1, "{said}");
    let lines: Vec<Value> = said
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let [broken, precertificate] = &lines[..] else {
        panic!("{said}");
    };
    assert_eq!(
        (&broken["verdict"], &precertificate["verdict"]),
        (&"wrong".into(), &"good".into())
    );
    assert_eq!(broken["findings"][0]["code"], "sct-extensions-dropped");
    assert_eq!(broken["findings"][0]["sct"], 1);
    assert_eq!(broken["scts"][0]["log"], "log A");
    assert_eq!(broken["scts"][0]["valid"], true);
    assert_eq!(broken["policies"][0]["verdict"], "not-compliant");
    assert_eq!(precertificate["kind"], "precertificate");
}

/// Predicts whether a log would accept a chain, without submitting it.
#[test]
fn chains_are_judged_by_given_roots() {
    let directory = files();
    let write = |name: &str, certificates: &[&[u8]]| {
        let pem: String = certificates
            .iter()
            .map(|der| pem::encode("CERTIFICATE", der))
            .collect();
        fs::write(directory.path().join(name), pem).unwrap();
    };
    let leaf = fs::read(directory.path().join("good.der")).unwrap();
    let issuer = pki().p256.cert_der();
    let mut forged = issuer.to_vec();
    *forged.last_mut().unwrap() ^= 1;
    write("roots.pem", &[pki().root.cert_der()]);
    write("chain.pem", &[&leaf, issuer]);
    write("forged.pem", &[&leaf, &forged]);
    write("short.pem", &[&leaf]);
    let run = |file: &str, more: &[&str]| {
        let args = [
            "lint",
            file,
            "--log-list",
            "list.json",
            "--roots",
            "roots.pem",
        ];
        lucarne(directory.path(), &[&args, more].concat())
    };
    let (code, said) = run("chain.pem", &[]);
    assert_eq!(code, 0, "{said}");
    let (code, said) = run("short.pem", &["--issuer", "issuer.pem"]);
    assert_eq!(code, 0, "{said}");
    for file in ["forged.pem", "short.pem"] {
        let (code, said) = run(file, &[]);
        assert_eq!(code, 1, "{said}");
        assert_has(&said, "chain-refused");
    }
}
