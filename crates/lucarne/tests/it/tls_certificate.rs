//! The served certificate: its expiry and its hosts.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use lucarne_mint::{LeafOptions, Time, pem};

use crate::common::tls::get;
use crate::common::{EVENT_TIMEOUT, assert_has, edit, eventually, log, lucarne, pki, run};

const HOST: &str = "ct.example.com";

/// Writes a certificate for [`HOST`], valid from `from` to `to` days from now.
pub(crate) fn certificate(directory: &Path, from: i64, to: i64) {
    let mut leaf = LeafOptions::for_names([HOST]).unwrap();
    leaf.not_before = Time::now().plus_days(from);
    leaf.not_after = Time::now().plus_days(to);
    let key = pem::encode("PRIVATE KEY", &leaf.key.to_pkcs8().unwrap());
    let chain = pki()
        .p256
        .full_chain(pki().p256.issue(&leaf).unwrap())
        .to_pem();
    lucarne_testkit::write_secret(directory.join("tls.new"), chain + &key);
    fs::rename(directory.join("tls.new"), directory.join("tls.pem")).unwrap();
}

#[test]
fn the_end_of_the_certificate_is_reported() {
    let log = log("");
    let tls = "tls: {certificate: tls.pem, key: tls.pem}\nlogs:";
    edit(&log.configuration(), "logs:", tls);
    for (from, to, said) in [
        (-90, -1, Some(": clients refuse it; renew it")),
        (-80, 10, Some(": renew it")),
        (1, 90, Some("is not valid before")),
        (-1, 89, None),
    ] {
        certificate(log.path(), from, to);
        let (_, all) = lucarne(log.path(), &["check"]);
        match said {
            Some(said) => assert_has(&all, said),
            None => assert!(!all.contains("tls.certificate: "), "{all}"),
        }
    }
    // The host of `submissionprefix` must be in the certificate, unless a proxy terminates TLS.
    let (file, text) = (
        log.configuration(),
        fs::read_to_string(log.configuration()).unwrap(),
    );
    let https = text.replace("submissionprefix: http://", "submissionprefix: https://");
    fs::write(&file, https).unwrap();
    let (_, all) = lucarne(log.path(), &["check"]);
    assert_has(&all, "tls.certificate: the certificate is not for ");
    fs::write(&file, text).unwrap();

    certificate(log.path(), -80, 10);
    let mut server = log.start().unwrap();
    server.wait_for_output("expires at", EVENT_TIMEOUT).unwrap();
    let read = |path| get(log.address(), &pki().root, HOST, path);
    run(eventually("the log is well", async || {
        read("/health").contains(" 200 ")
    }));
    let health = read("/health");
    assert_has(&health, "tls_certificate");
    assert_has(&health, "the certificate expires at ");
    let expiry = || {
        let metrics = read("/metrics");
        let name = "lucarne_tls_certificate_expiry_timestamp_seconds ";
        let line = metrics.lines().find_map(|line| line.strip_prefix(name));
        line.unwrap_or_else(|| panic!("no {name} in {metrics}"))
            .parse::<i64>()
            .unwrap()
    };
    let before = expiry();
    certificate(log.path(), -1, 89);
    run(eventually("the new certificate is served", async || {
        expiry() > before
    }));
    assert_has(&read("/health"), "the certificate is valid until ");

    // As certbot renews it.
    let renewed = log.path().join("live");
    fs::create_dir(&renewed).unwrap();
    certificate(&renewed, -1, 120);
    let pem = fs::read_to_string(renewed.join("tls.pem")).unwrap();
    let (chain, key) = pem.split_at(pem.find("-----BEGIN PRIVATE KEY").unwrap());
    fs::write(renewed.join("fullchain.pem"), chain).unwrap();
    lucarne_testkit::write_secret(renewed.join("privkey.pem"), key);
    let hook = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/certbot/deploy-hook");
    let file = log.path().join("tls.pem");
    let before = (expiry(), fs::read(&file).unwrap());
    let run_hook = |lineage: &Path| {
        let mut command = Command::new(&hook);
        command.arg(&file).env("RENEWED_LINEAGE", lineage);
        command.output().unwrap()
    };
    let failed = run_hook(log.path());
    assert!(!failed.status.success(), "{failed:?}");
    assert_eq!(fs::read(&file).unwrap(), before.1);
    let done = run_hook(&renewed);
    assert!(done.status.success(), "{done:?}");
    let mode = fs::metadata(&file).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    run(eventually(
        "the renewed certificate is served",
        async || expiry() > before.0,
    ));
    let left = fs::read_dir(log.path()).unwrap();
    let mut left = left.map(|entry| entry.unwrap().file_name());
    assert!(!left.any(|name| name.to_string_lossy().starts_with(".tls.")));
    server.stop(EVENT_TIMEOUT).unwrap();
}
