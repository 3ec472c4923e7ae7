//! Google's `ctclient`, unchanged, reads a log by RFC 6962 and verifies signatures, proofs and
//! entries with its own code.

use std::path::Path;

use lucarne_mint::Chain;
use lucarne_testkit::{Launch, LogUnderTest, go_program};
use serde_json::Value;

use crate::common::load::Load;
use crate::common::{EVENT_TIMEOUT, all, assert_has, log, pki, ready, run};

/// The version that `scripts/install-test-tools` builds.
const VERSION: &str = "v1.3.2";

/// A log, and the client for it.
struct Ctclient {
    log: LogUnderTest,
    program: std::path::PathBuf,
}

impl Ctclient {
    /// Runs a command, and returns whether it succeeded and its output.
    #[track_caller]
    fn run(&self, command: &str, options: &[&str]) -> (bool, String) {
        let (url, key) = (self.log.url(), self.log.path().join("key.pem"));
        let output = Launch::new(&self.program)
            .arg(command)
            .args(["--log_uri", &url, "--pub_key"])
            .arg(key)
            .args(options.iter().copied())
            .run()
            .unwrap();
        (output.status.success(), all(&output))
    }

    #[track_caller]
    fn says(&self, command: &str, options: &[&str]) -> String {
        let (is_good, said) = self.run(command, options);
        assert!(is_good, "ctclient {command} {options:?}: {said}");
        said
    }

    /// Returns size and root of the tree head that the client has verified.
    fn sth(&self) -> (u64, String) {
        let said = self.says("get-sth", &[]);
        let between = |before: &str, after: char| {
            let (_, rest) = said.split_once(before).unwrap_or_else(|| panic!("{said}"));
            rest.split(after).next().unwrap().trim().to_owned()
        };
        (
            between("(size=", ')').parse().unwrap(),
            between("hash ", '\n'),
        )
    }
}

fn write_chain(path: &Path, chain: &Chain, more: &str) {
    std::fs::write(path, chain.to_pem() + more).unwrap();
}

#[test]
fn ctclient_works_unchanged() {
    let program = go_program("ctclient", VERSION).unwrap();
    let log = log("period: 20\nrfc6962reads: true");
    let key = lucarne_mint::pem::encode("PUBLIC KEY", log.public_key());
    std::fs::write(log.path().join("key.pem"), key).unwrap();
    let mut server = log.start().unwrap();
    let load = Load::new(&log);
    let submit = async |count| {
        for _ in 0..count {
            assert_eq!(load.submit(&load.fresh()).await, Some(true));
        }
    };
    run(async {
        ready(&log).await;
        submit(5).await;
    });
    let client = Ctclient { log, program };
    let (first, first_root) = client.sth();
    assert_eq!(first, 5);
    run(submit(8));

    // For a certificate, the client verifies its SCT, then requests the proof by the leaf's hash.
    let file = client.log.path().join("chain.pem");
    let leaf = pki().leaf("example.com");
    let issuer = &pki().p256;
    write_chain(&file, &issuer.full_chain(issuer.issue(&leaf).unwrap()), "");
    let file = file.to_str().unwrap();
    let said = client.says("upload", &["--cert_chain", file, "--log_mmd", "0s"]);
    assert_has(&said, "Verified that hash");

    // A precertificate, whose leaf the client builds from the chain and the SCT.
    let leaf = pki().leaf("example.org").precertificate();
    let chain = issuer.full_chain(issuer.issue(&leaf).unwrap());
    let client_of_log = client.log.client();
    let answer = run(client_of_log.post("ct/v1/add-pre-chain", chain.to_json()));
    let sct: Value = answer.unwrap().json().unwrap();
    let extensions = base64_simd::STANDARD
        .decode_to_vec(sct["extensions"].as_str().unwrap())
        .unwrap();
    let of_sct = format!(
        "Timestamp={}\nExtensions={}\n",
        sct["timestamp"],
        hex::encode(extensions)
    );
    let pre = client.log.path().join("prechain.pem");
    write_chain(&pre, &chain, &of_sct);
    let said = client.says("inclusion", &["--cert_chain", pre.to_str().unwrap()]);
    assert_has(&said, "Verified that hash");

    let (second, second_root) = client.sth();
    assert_eq!(second, 15);
    let sizes = [first.to_string(), second.to_string()];
    let consistency = |first_root: &str| {
        client.run(
            "consistency",
            &[
                "--prev_size",
                &sizes[0],
                "--prev_hash",
                first_root,
                "--size",
                &sizes[1],
                "--tree_hash",
                &second_root,
            ],
        )
    };
    let (is_good, said) = consistency(&first_root);
    assert!(is_good, "{said}");
    assert_has(&said, "Verified that hash");
    // A wrong root is detected.
    assert!(!consistency(&second_root).0);

    let said = client.says("get-entries", &["--first", "0", "--last", "14", "--chain"]);
    for index in 0..15 {
        assert_has(&said, &format!("Index={index} Timestamp="));
    }
    assert_has(&said, "pre-certificate from issuer with keyhash");
    assert_has(&said, "X.509 certificate:");
    assert!(
        !said.contains("Failed to") && !said.contains("Error"),
        "{said}"
    );
    assert!(!client.run("get-entries", &["--first", "15"]).0);
    client.says("get-roots", &[]);
    assert!(server.stop(EVENT_TIMEOUT).unwrap().success());
}
