//! `lucarne serve` with only flags, as with TesseraCT.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::common::{
    EVENT_TIMEOUT, LUCARNE, assert_has, eventually, lucarne, pki, run, submission,
};
use lucarne_mint::{KeyPair, KeyType, oid};
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
    // All ways to write the flags, and to verify signatures.
    for (dashes, dash, verification) in [
        ("--", "-", "--verification=fast"),
        ("--", "_", "--verification=general"),
        ("-", "_", "-verification=fast"),
    ] {
        let port = free_port();
        let mut arg = format!(
            "--http-endpoint=127.0.0.1:{port} --storage-dir=data \
             --private-key=key.pem --roots-pem-file=roots.pem --checkpoint-interval=1500ms \
             --not-after-start=2020-01-01T00:00:00Z --reject-expired=false \
             --ext-key-usages=ServerAuth --accept-sha1-signing-algorithms --path-prefix= \
             --testcert=false"
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
            "path-prefix",
            "testcert",
        ] {
            let written = format!("{dashes}{}", flag.replace('-', dash));
            arg = arg.replace(&format!("--{flag}"), &written);
        }
        let mut server = Launch::new(LUCARNE)
            .args(["serve", "--origin=example.com/test"])
            .arg(verification)
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
            // TesseraCT serves this path at the root, even if the origin has a path.
            let root = Client::new(format!("http://127.0.0.1:{port}"));
            let answer = root.post("ct/v1/add-chain", submission(&pki().p256)).await;
            assert_eq!(answer.unwrap().status, 200);
            assert_eq!(root.get("ct/v1/get-roots").await.unwrap().status, 200);
            sizes.push(checkpoint.lines().nth(1).unwrap().parse::<u64>().unwrap());
        });
        assert!(
            server.stop(EVENT_TIMEOUT).unwrap().success(),
            "{}",
            server.output()
        );
    }
    assert!(sizes.is_sorted_by(|a, b| a < b), "{sizes:?}");
    assert!(directory.path().join("data.checkpoints.db").exists());
    // If the lock is missing, a log is never created over existing data.
    fs::remove_file(directory.path().join("data.checkpoints.db")).unwrap();
    let args = "serve --origin=example.com/test --http-endpoint=127.0.0.1:0 --storage-dir=data \
                --private-key=key.pem --roots-pem-file=roots.pem";
    let args: Vec<&str> = args.split_whitespace().collect();
    let (code, said) = lucarne(directory.path(), &args);
    assert_eq!(code, 1);
    assert_has(&said, "Give the right lock with --checkpoints");
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
    // A variable of a unit file that is not set.
    for flag in ["--storage-dir=", "--cache=", "--roots-pem-file="] {
        let (code, said) = lucarne(directory.path(), &["serve", "--origin=a.example/b", flag]);
        assert_eq!(code, 2, "{flag}");
        assert_has(&said, "a value is required");
    }
}

/// A restored backup of the data would roll back a lock among them.
#[test]
fn a_lock_within_the_data_is_refused() {
    let directory = files();
    let args = "serve --origin=example.com/test --private-key=key.pem --roots-pem-file=roots.pem \
                --http-endpoint=127.0.0.1:0 --cache=cache \
                --bucket=s3://logs/a/?endpoint=http://127.0.0.1:1 \
                --checkpoints=s3://logs/a/lock?endpoint=http://127.0.0.1:1";
    let args: Vec<&str> = args.split_whitespace().collect();
    let (code, said) = lucarne(directory.path(), &args);
    assert_eq!(code, 1);
    assert_has(&said, "is within the data of");
}

/// The flags of TesseraCT's POSIX server (`cmd/tesseract/posix`), each with a value, and whether
/// Lucarne ignores the flag.
const TESSERACT: [(&str, &str, bool); 46] = [
    ("accept_sha1_signing_algorithms", "true", false),
    ("additional_signer", "signer", true),
    ("antispam_base_table_size", "16777216", true),
    ("antispam_batch_size", "10000", true),
    ("antispam_block_cache_size", "0MB", true),
    ("antispam_compaction_interval", "5m", true),
    ("antispam_index_cache_size", "768MB", true),
    ("antispam_mem_table_size", "268435456", true),
    ("antispam_num_compactors", "2", true),
    ("awaiter_poll_interval", "100ms", true),
    ("batch_max_age", "250ms", true),
    ("batch_max_size", "256", true),
    ("checkpoint_interval", "1.5s", false),
    ("checkpoint_republish_interval", "30s", false),
    ("client_http_max_idle", "20", true),
    ("client_http_max_idle_per_host", "10", true),
    ("client_http_timeout", "5s", true),
    ("enable_publication_awaiter", "true", false),
    ("ext_key_usages", "Any", false),
    ("garbage_collection_interval", "10s", true),
    ("http_deadline", "10s", true),
    ("http_endpoint", "127.0.0.1:0", false),
    ("inmemory_antispam_cache_size", "256k", true),
    ("mask_internal_errors", "true", true),
    ("max_cert_chain_bytes", "524288", false),
    ("not_after_limit", "2027-07-01T00:00:00Z", false),
    ("not_after_start", "2027-01-01T00:00:00Z", false),
    ("origin", "example.com/test", false),
    ("path_prefix", "/test", false),
    ("private_key", "none.pem", false),
    ("pushback_max_antispam_lag", "2048", true),
    ("pushback_max_outstanding", "4096", false),
    ("rate_limit_dedup", "-1", true),
    ("rate_limit_old_not_before", "28h:500", true),
    ("reject_expired", "false", false),
    ("reject_extension", "2.3.4.5", false),
    ("reject_unexpired", "false", false),
    ("roots_pem_file", "roots.pem", false),
    ("roots_reject_fingerprints", FINGERPRINT, false),
    ("roots_remote_fetch_interval", "0s", false),
    ("roots_remote_fetch_url", "https://ccadb.example/csv", false),
    ("slog_level", "-4", false),
    ("storage_dir", "data", false),
    ("trace_fraction", "0.5", true),
    ("witness_policy_file", "policy", true),
    ("witness_timeout", "5s", true),
];

const FINGERPRINT: &str = "b1882d93c4a1d3b4d6b0e3c26c0a1b9ff4d1f5c9a5d8e2f3b7c6a90817263544";

/// The flags of TesseraCT's AWS server (`cmd/tesseract/aws`) that the POSIX server does not have.
const AWS: [(&str, &str, bool); 14] = [
    ("antispam_db_name", "antispam", true),
    ("bucket", "ct-bucket", false),
    ("db_host", "db.example.com", false),
    ("db_max_conns", "0", true),
    ("db_max_idle_conns", "2", true),
    ("db_name", "tessera", false),
    ("db_password", "secret", false),
    ("db_port", "3306", false),
    ("db_user", "ct", false),
    ("s3_use_path_style", "true", true),
    ("signer_private_key_file", "none.pem", false),
    ("signer_public_key_file", "key.pub.pem", true),
    ("signer_public_key_secret_name", "name", true),
    ("cache", "cache", false),
];

/// The flags of TesseraCT's GCP server (`cmd/tesseract/gcp`) that the POSIX server does not have.
const GCP: [(&str, &str, bool); 15] = [
    ("additional_signer_private_key_secret_name", "name", true),
    ("bucket", "ct-bucket", false),
    ("container_name", "name", true),
    ("drop_metrics", "rpc.*", true),
    ("gcs_connections", "4", true),
    ("image_name", "name", true),
    ("otel_project_id", "id", true),
    ("slog_to_cloud_api", "false", true),
    ("slog_to_stdout", "true", true),
    ("spanner_antispam_db_path", "projects/p/a", true),
    ("spanner_connections", "4", true),
    ("spanner_db_path", "projects/p/d", true),
    ("private_key", "none.pem", false),
    ("cache", "cache", false),
    ("checkpoints", "gs://lock/ct", false),
];

#[test]
fn every_flag_of_tesseract_is_taken() {
    are_taken(&TESSERACT, "--");
}

/// The line of an ignored flag names the equivalent key of a configuration file.
#[test]
fn ignored_flags_name_their_keys() {
    let line = "serve -origin=example.com/test -storage_dir data -roots_pem_file=roots.pem \
                -http_endpoint=127.0.0.1:0 -private_key none.pem -trace_fraction=0.5 \
                -rate_limit_old_not_before=28h:500 -rate_limit_dedup=10";
    let args: Vec<&str> = line.split_whitespace().collect();
    let (_, said) = lucarne(files().path(), &args);
    for ignored in [
        "--trace-fraction: is a flag of TesseraCT, and ignored: traces are exported only with \
         `otlp:` in a configuration file, by a build with the feature `otlp`",
        "--rate-limit-old-not-before: is a flag of TesseraCT, and ignored: old certificates have a \
         separate lane; only a configuration file can limit its rate (`backlog:`)",
        "--rate-limit-dedup: is a flag of TesseraCT, and ignored: duplicates have no rate limit: \
         they get the SCT of the logged entry without a place in the pool",
    ] {
        assert_has(&said, ignored);
    }
}

#[test]
fn every_flag_of_tesseract_on_aws_and_gcp_is_taken() {
    let of_posix = ["storage_dir", "private_key", "additional_signer"];
    let shared = TESSERACT
        .iter()
        .filter(|(flag, ..)| !of_posix.contains(flag));
    for of_cloud in [&AWS[..], &GCP[..]] {
        let flags: Vec<_> = shared.clone().chain(of_cloud).copied().collect();
        are_taken(&flags, "-");
    }
}

/// The last value of a repeated flag counts, and an empty value counts as absent.
#[test]
fn flags_are_read_as_go_reads_them() {
    let line = "serve -origin=https://wrong -origin=example.com/test -storage_dir data \
                -roots_pem_file=roots.pem -http_endpoint=127.0.0.1:0 -not_after_start= \
                -not_after_limit= -reject_extension= -reject_expired=F -reject_unexpired=0 \
                -accept_sha1_signing_algorithms=T -private_key none.pem -ext_key_usages= \
                -signer_private_key_secret_name= -path_prefix= -db_host= -db_name n -db_user= \
                -db_password -x7 -db_port=3306";
    let args: Vec<&str> = line.split_whitespace().collect();
    let (code, said) = lucarne(files().path(), &args);
    assert_eq!(code, 1, "{said}");
    assert_has(&said, "problem: --private-key: none.pem does not exist");
    assert_eq!(said.matches("problem:").count(), 1, "{said}");
    // Settings of a database without its host are ignored.
    for (flag, ignored) in [("name", 1), ("user", 0), ("password", 1), ("port", 1)] {
        let line = format!("--db-{flag}: is a flag of TesseraCT, and ignored: ");
        assert_eq!(said.matches(&line).count(), ignored, "{flag}\n{said}");
    }
    assert!(!said.contains("x7"), "{said}");
    // Two keys are an error.
    let line = "serve -origin=example.com/test -private_key none.pem \
                -signer_private_key_secret_name=ct/key";
    let args: Vec<&str> = line.split_whitespace().collect();
    let (code, said) = lucarne(files().path(), &args);
    assert_eq!(code, 1, "{said}");
    assert_has(&said, "--signer-private-key-secret-name: ");
}

/// The name of a bucket does not identify its cloud.
#[test]
fn a_bucket_without_its_cloud_is_refused() {
    let args = [
        "serve",
        "-origin=example.com/test",
        "-bucket=name",
        "-cache=c",
    ];
    let (code, said) = lucarne(files().path(), &args);
    assert_eq!(code, 1, "{said}");
    assert_has(&said, "--bucket: ");
    assert_has(&said, "s3://");
}

/// Checks that `serve` accepts all of these flags, and reports the ignored ones.
fn are_taken(flags: &[(&str, &str, bool)], dashes: &str) {
    let directory = files();
    let mut args = vec!["serve".to_owned()];
    for (flag, value, _) in flags {
        args.push(format!("{dashes}{flag}={value}"));
    }
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    // The process ends by itself, because its key does not exist.
    let (code, said) = lucarne(directory.path(), &args);
    assert_eq!(code, 1, "{said}");
    assert_has(&said, "problem: --private-key: none.pem does not exist");
    assert_eq!(said.matches("problem:").count(), 1, "{said}");
    for (flag, _, ignored) in flags {
        let line = format!(
            "--{}: is a flag of TesseraCT, and ignored: ",
            flag.replace('_', "-")
        );
        assert_eq!(
            said.matches(&line).count(),
            usize::from(*ignored),
            "{flag}\n{said}"
        );
    }
}

/// The defaults equal TesseraCT's: every extended key usage is accepted, and the key comes from the
/// environment if no flag names a key.
#[test]
fn what_tesseracts_flags_leave_unsaid_is_as_it_has_it() {
    let directory = files();
    let port = free_port();
    let key = fs::read_to_string(directory.path().join("key.pem")).unwrap();
    let mut server = Launch::new(LUCARNE)
        .args(["serve", "--origin=example.com/test", "--storage_dir=data"])
        .args(["--roots_pem_file=roots.pem", "--slog_level=4"])
        .arg(format!("--http_endpoint=127.0.0.1:{port}"))
        .env("LOG_PRIVATE_KEY", key)
        .directory(directory.path())
        .start(([127, 0, 0, 1], port).into())
        .unwrap();
    let mut leaf = pki().leaf("www.example.com");
    leaf.eku = vec![oid::CLIENT_AUTH];
    let chain = pki().p256.chain(pki().p256.issue(&leaf).unwrap()).to_json();
    run(async {
        let client = Client::new(format!("http://127.0.0.1:{port}/test"));
        eventually("the log is open", async || {
            let answer = client
                .post("ct/v1/add-chain", submission(&pki().p256))
                .await;
            answer.is_ok_and(|answer| answer.status == 200)
        })
        .await;
        let answer = client.post("ct/v1/add-chain", chain).await.unwrap();
        assert_eq!(answer.status, 200, "{}", answer.text());
    });
    assert!(server.stop(EVENT_TIMEOUT).unwrap().success());
    let said = server.output();
    assert!(!said.contains(" INFO "), "{said}");
}
