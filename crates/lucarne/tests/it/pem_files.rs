//! Files of certificates damaged by an editor or a script: no block is dropped without a message.
#![allow(clippy::unwrap_used)]

use std::fs;

use lucarne_mint::{Authority, CaOptions, KeyType, LeafOptions, pem};
use lucarne_testkit::{LogUnderTest, TempDir, temp_dir};

use crate::common::{LUCARNE, assert_has, edit, lucarne};

const BAD_END: &str = "PEM block CERTIFICATE: its END line is damaged, or has more text";

fn authority(name: &str) -> Authority {
    Authority::root(&CaOptions::named(name, KeyType::EcdsaP256)).unwrap()
}

/// Returns two CAs in one file, as concatenated by `cat` without a newline between them.
fn glued() -> (String, usize) {
    let (one, two) = (authority("One"), authority("Two"));
    let first = one.certificate_pem();
    let text = format!("{}{}", first.trim_end(), two.certificate_pem());
    (text, first.lines().count())
}

#[test]
fn roots_name_every_block_that_is_not_taken() {
    let roots = format!(
        "\u{feff}{}{}",
        authority("One").certificate_pem(),
        authority("Two").certificate_pem()
    );
    let log = LogUnderTest::prepare(LUCARNE, &roots, "").unwrap();
    let (_, said) = lucarne(log.path(), &["check"]);
    assert_has(&said, "2 roots");

    let utf_16 = roots.encode_utf16().flat_map(u16::to_le_bytes);
    fs::write(log.path().join("roots.pem"), utf_16.collect::<Vec<u8>>()).unwrap();
    let (_, said) = lucarne(log.path(), &["check"]);
    assert_has(
        &said,
        "the file is UTF-16: convert it to UTF-8 with `iconv -f UTF-16",
    );
    fs::write(log.path().join("roots.pem"), authority("One").cert_der()).unwrap();
    let (_, said) = lucarne(log.path(), &["check"]);
    assert_has(
        &said,
        "roots.pem: the file has DER in place of PEM: convert it",
    );
    let yaml = fs::read_to_string(log.configuration()).unwrap();
    let yaml = format!("\u{feff}{yaml}");
    let utf_16 = yaml.encode_utf16().flat_map(u16::to_be_bytes);
    fs::write(log.path().join("utf-16.yaml"), utf_16.collect::<Vec<u8>>()).unwrap();
    let (code, said) = lucarne(log.path(), &["check", "-c", "utf-16.yaml"]);
    assert_eq!(code, 1, "{said}");
    assert_has(
        &said,
        "the file is UTF-16: convert it with `iconv -f UTF-16 -t UTF-8 utf-16.yaml`",
    );

    let (mut text, line) = glued();
    text += &authority("Three").certificate_pem();
    fs::write(log.path().join("roots.pem"), text).unwrap();
    let (_, said) = lucarne(log.path(), &["check"]);
    assert_has(&said, "1 root,");
    assert_has(&said, "certificate 1 (line 1): its END line is damaged");
    let second = format!("certificate 2 (line {line}): its BEGIN line is damaged");
    assert_has(&said, &second);
}

/// A certificate with its issuer: an incomplete chain is never served.
#[test]
fn a_glued_chain_is_not_served() {
    let root = authority("Root");
    let leaf = LeafOptions::for_names(["ct.example.com"]).unwrap();
    let certificate = pem::encode("CERTIFICATE", &root.issue(&leaf).unwrap());
    let key = pem::encode("PRIVATE KEY", &leaf.key.to_pkcs8().unwrap());

    let log = LogUnderTest::prepare(LUCARNE, &root.certificate_pem(), "").unwrap();
    lucarne_testkit::write_secret(log.path().join("key.pem"), key);
    edit(
        &log.configuration(),
        "logs:",
        "tls: {certificate: chain.pem, key: key.pem}\nlogs:",
    );
    let chain = log.path().join("chain.pem");
    fs::write(
        &chain,
        format!("{}{}", certificate.trim_end(), root.certificate_pem()),
    )
    .unwrap();
    for command in ["check", "serve"] {
        let (code, said) = lucarne(log.path(), &[command]);
        assert_eq!(code, 1, "{said}");
        assert_has(&said, &format!("line 1: {BAD_END}"));
    }
    fs::write(
        &chain,
        format!("\u{feff}{certificate}{}", root.certificate_pem()),
    )
    .unwrap();
    let (_, said) = lucarne(log.path(), &["check"]);
    assert!(!said.contains("tls"), "{said}");
}

/// The authorities that clients trust: `--ca` and `--upstream-ca`.
#[test]
fn glued_authorities_are_refused_with_their_line() {
    let here = temp_dir();
    fs::write(here.path().join("ca.pem"), glued().0).unwrap();
    let url = "https://127.0.0.1:9/";
    for command in [
        &["load", "rest", "--no-ui", "--url", url, "--ca", "ca.pem"][..],
        &[
            "load",
            "ct-read",
            "--no-ui",
            "--log-url",
            url,
            "--ca",
            "ca.pem",
        ],
        &["watch", url, "--ca", "ca.pem"],
        &[
            "proxy",
            "--no-ui",
            "--listen",
            "127.0.0.1:0",
            "--upstream-ca",
            "ca.pem",
        ],
        &["lint", "ca.pem"],
        &["ca", "inspect", "ca.pem"],
    ] {
        let (code, said) = lucarne(here.path(), command);
        assert_ne!(code, 0, "{command:?}: {said}");
        assert_has(&said, "ca.pem");
        assert_has(&said, &format!("line 1: {BAD_END}"));
    }
}

fn refuses_a_second_document(directory: &TempDir, command: &[&str], file: &str, yaml: &str) {
    fs::write(directory.path().join(file), yaml).unwrap();
    let (code, said) = lucarne(directory.path(), command);
    assert_ne!(code, 0, "{command:?}: {said}");
    let line = yaml.lines().position(|line| line == "---").unwrap() + 1;
    assert_has(
        &said,
        &format!("{file}:{line}: is not YAML: a second document begins here"),
    );
}

#[test]
fn a_second_document_is_refused() {
    let here = temp_dir();
    let configuration = "listen: [\"127.0.0.1:0\"]\ncheckpoints: lock.db\n---\nlogs: []\n";
    for command in ["check", "serve"] {
        refuses_a_second_document(&here, &[command], "lucarne.yaml", configuration);
    }
    let proxy = ["proxy", "--config", "proxy.yaml"];
    refuses_a_second_document(
        &here,
        &proxy,
        "proxy.yaml",
        "listen: 127.0.0.1:0\n---\na: 1\n",
    );
    let plan = "scenarios: {}\n---\nthresholds: {}\n";
    refuses_a_second_document(&here, &["load", "check", "plan.yaml"], "plan.yaml", plan);
}
