//! A log's key in a PKCS #11 token of SoftHSM.

use std::fs;
use std::process::Command;

use lucarne_ct::LogKey;
use lucarne_mint::{KeyPair, KeyType, pem};
use lucarne_testkit::{Audit, write_secret};

use super::apart::Apart;
use crate::common::load::Load;
use crate::common::{all, assert_has, edit, pki, ready, run};

/// Debian uses the same path on all architectures.
const MODULE: &str = "/usr/lib/softhsm/libsofthsm2.so";

#[test]
fn a_log_runs_with_its_key_in_a_token() {
    let apart = Apart::prepare();
    let directory = apart.log.path();
    let config = directory.join("softhsm2.conf");
    fs::create_dir(directory.join("tokens")).unwrap();
    let tokens = directory.join("tokens");
    fs::write(
        &config,
        format!("directories.tokendir = {}\n", tokens.display()),
    )
    .unwrap();
    let softhsm = |args: &[&str]| {
        let mut command = Command::new("softhsm2-util");
        let output = command.args(args).env("SOFTHSM2_CONF", &config).output();
        let output = output.expect("softhsm2 (scripts/install-test-tools)");
        assert!(output.status.success(), "{}", all(&output));
    };
    let init = [
        "--init-token",
        "--free",
        "--label",
        "ct",
        "--so-pin",
        "5678",
    ];
    softhsm(&[&init[..], &["--pin", "1234"]].concat());
    let pair = KeyPair::generate(KeyType::EcdsaP256).unwrap();
    let key = pem::encode("PRIVATE KEY", &pair.to_pkcs8().unwrap());
    let file = directory.join("key.p8");
    fs::write(&file, &key).unwrap();
    let import = ["--import", file.to_str().unwrap(), "--token", "ct"];
    softhsm(
        &[
            &import[..],
            &["--label", "test", "--id", "01", "--pin", "1234"],
        ]
        .concat(),
    );
    fs::remove_file(file).unwrap();

    let spki = LogKey::from_pem(&key).unwrap().public_key_spki().to_vec();
    fs::write(directory.join("key.pem"), pem::encode("PUBLIC KEY", &spki)).unwrap();
    write_secret(directory.join("pin"), "1234\n");
    write_secret(directory.join("lines"), "1234\n5678\n");
    let token = format!("module: {MODULE}\n    token: ct\n    object: test\n    pin: pin");
    edit(&directory.join("signer.yaml"), "secret: seed.bin", &token);
    let command = || apart.log.command().env("SOFTHSM2_CONF", &config);
    let first_use = command().args(["signer", "first-use", &apart.log.origin()]);
    let first_use = first_use.run().unwrap();
    assert!(first_use.status.success(), "{}", all(&first_use));

    let _signer = apart.start_signer_by(command());
    assert!(apart.log.launch("init").run().unwrap().status.success());
    let _server = apart.log.start().unwrap();
    run(async {
        ready(&apart.log).await;
        let roots = pki().root.certificate_pem();
        let audit = Audit::new(
            &apart.log.url(),
            &apart.log.origin(),
            &spki,
            roots.as_bytes(),
        );
        let load = Load::on(apart.log.client(), audit.unwrap());
        for _ in 0..30 {
            assert_eq!(load.submit(&load.fresh()).await, Some(true));
        }
        load.settle_accounts().await.assert_clean();
    });

    let wrong = |from: &str, to: &str, problem: &str| {
        edit(&directory.join("signer.yaml"), from, to);
        let output = command().arg("signer").run().unwrap();
        assert!(!output.status.success());
        assert_has(&all(&output), problem);
        edit(&directory.join("signer.yaml"), to, from);
    };
    wrong("token: ct", "token: none", "has no token \"none\"");
    wrong("object: test", "object: none", "in the token, found 0");
    wrong("pin: pin", "pin: lines", "more than one line");
    wrong(MODULE, "/none/here.so", "/none/here.so");
}
