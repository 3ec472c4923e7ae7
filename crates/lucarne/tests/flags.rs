//! `lucarne serve` with flags alone, as for TesseraCT.
#![allow(clippy::unwrap_used)]

mod common;

use std::fs;
use std::os::unix::fs::PermissionsExt;

use common::{LUCARNE, PATIENCE, assert_has, eventually, lucarne, pki, run, submission};
use lucarne_mint::{KeyPair, KeyType};
use lucarne_testkit::{Client, Launch, TempDir, free_port, temp_dir};

fn files() -> TempDir {
    let directory = temp_dir();
    let key = KeyPair::generate(KeyType::EcdsaP256)
        .unwrap()
        .to_pkcs8()
        .unwrap();
    let file = directory.path().join("key.pem");
    fs::write(&file, lucarne_mint::pem::encode("PRIVATE KEY", &key)).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    fs::write(
        directory.path().join("roots.pem"),
        pki().root.certificate_pem(),
    )
    .unwrap();
    directory
}

#[test]
fn flags_alone_start_a_log_and_start_it_again() {
    let directory = files();
    let mut sizes = Vec::new();
    // Both ways of writing the flags.
    for dash in ["-", "_"] {
        let port = free_port();
        let mut arg = format!(
            "--http-endpoint=127.0.0.1:{port} --storage-dir=data \
             --private-key=key.pem --roots-pem-file=roots.pem --checkpoint-interval=1500ms \
             --not-after-start=2020-01-01T00:00:00Z --reject-expired=false \
             --ext-key-usages=ServerAuth --accept-sha1-signing-algorithms"
        );
        for flag in [
            "http-endpoint",
            "storage-dir",
            "private-key",
            "roots-pem-file",
            "checkpoint-interval",
            "not-after-start",
            "reject-expired",
            "ext-key-usages",
            "accept-sha1-signing-algorithms",
        ] {
            arg = arg.replace(flag, &flag.replace('-', dash));
        }
        let mut server = Launch::new(LUCARNE)
            .args(["serve", "--origin=example.com/test"])
            .args(arg.split_whitespace())
            .directory(directory.path())
            .start(([127, 0, 0, 1], port).into())
            .unwrap();
        run(async {
            let client = Client::new(format!("http://127.0.0.1:{port}/test"));
            eventually("a submission is taken", async || {
                let answer = client
                    .post("ct/v1/add-chain", submission(&pki().p256))
                    .await;
                answer.is_ok_and(|answer| answer.status == 200)
            })
            .await;
            let checkpoint = client.get("checkpoint").await.unwrap().text();
            assert_has(&checkpoint, "example.com/test\n");
            sizes.push(checkpoint.lines().nth(1).unwrap().parse::<u64>().unwrap());
        });
        assert!(
            server.stop(PATIENCE).unwrap().success(),
            "{}",
            server.output()
        );
    }
    assert!(sizes[1] > sizes[0]);
    assert!(directory.path().join("data.checkpoints.db").exists());
    // Data without its lock is never begun anew.
    fs::remove_file(directory.path().join("data.checkpoints.db")).unwrap();
    let args = "serve --origin=example.com/test --http-endpoint=127.0.0.1:0 --storage-dir=data \
                --private-key=key.pem --roots-pem-file=roots.pem";
    let args: Vec<&str> = args.split_whitespace().collect();
    let (code, said) = lucarne(directory.path(), &args);
    assert_eq!(code, 1);
    assert_has(&said, "Name the right one with --checkpoints");
}

#[test]
fn wrong_flags_are_all_said_at_once() {
    let directory = files();
    let args = "serve --origin=https://example.com --http-endpoint=nowhere --private-key=none.pem \
         --checkpoint-interval=5m --not-after-start=then --ext-key-usages=ClientAuth \
         --reject-extension=x";
    let args: Vec<&str> = args.split_whitespace().collect();
    let (code, said) = lucarne(directory.path(), &args);
    assert_eq!(code, 1);
    insta::assert_snapshot!("wrong_flags", said);
    let (code, said) = lucarne(directory.path(), &["serve", "--storage-dir=x"]);
    assert_eq!(code, 2);
    assert_has(&said, "--origin");
}
