//! Certificates and stapled OCSP responses that TLS clients refuse.

use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;

use lucarne_load::{Outcome, Verdict};
use lucarne_mint::testing::{OcspResponse, OcspStatus};
use lucarne_mint::{
    Authority, CaOptions, Extension, KeyPair, KeyType, LeafOptions, Time, oid, pem,
};
use lucarne_testkit::{Launch, free_port};
use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::PrivatePkcs8KeyDer;
use serde_json::json;

use crate::hostile::{Hostile, failed, run};

/// A trusted root, with its file.
struct Root {
    authority: Authority,
    directory: tempfile::TempDir,
}

impl Root {
    fn new() -> Self {
        let options = CaOptions::named("Root", KeyType::EcdsaP256);
        let authority = Authority::root(&options).unwrap();
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("ca.pem"), authority.certificate_pem()).unwrap();
        Self {
            authority,
            directory,
        }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Runs the scenario against a server at this port of `localhost`.
    fn run(&self, port: u16, version: &str) -> Outcome {
        let url = format!("https://localhost:{port}");
        let ca = self.file("ca.pem");
        run(
            "tls",
            json!({ "url": url, "ca": ca, "tlsVersions": [version] }),
        )
    }

    /// Runs the scenario against a server with these certificates and this stapled response.
    fn look(&self, chain: &[Vec<u8>], key: &KeyPair, staple: &[u8], version: &str) -> Outcome {
        let chain = chain.iter().cloned().map(Into::into).collect();
        let key = PrivatePkcs8KeyDer::from(key.to_pkcs8().unwrap());
        let provider = Arc::new(aws_lc_rs::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert_with_ocsp(chain, key.into(), staple.to_vec())
            .unwrap();
        let server = Hostile::accepts(Arc::new(config));
        self.run(server.address.port(), version)
    }
}

fn leaf() -> LeafOptions {
    LeafOptions::for_names(["localhost"]).unwrap()
}

/// Checks that exactly one check has failed, with these words in the error.
#[track_caller]
fn is_red(outcome: &Outcome, check: &str, words: &str) {
    assert_eq!(outcome.verdict, Verdict::Crossed);
    assert_eq!(failed(outcome), [check]);
    let told = &outcome.summary.errors[0].details[0];
    assert!(told.contains(words), "{told}");
}

#[track_caller]
fn is_green(outcome: &Outcome) {
    let checks = &outcome.summary.checks;
    assert_eq!(outcome.verdict, Verdict::Passed, "{checks:#?}");
    assert_eq!(failed(outcome), [""; 0]);
}

#[test]
fn a_superfluous_certificate_must_be_one() {
    let root = Root::new();
    let leaf = leaf();
    let certificate = root.authority.issue(&leaf).unwrap();
    for version in ["1.2", "1.3"] {
        let chain = [certificate.clone(), b"garbage".to_vec()];
        let outcome = root.look(&chain, &leaf.key, b"", version);
        is_red(
            &outcome,
            "certificate_chain",
            "certificate 2 cannot be parsed",
        );
    }
}

#[test]
fn stapled_responses_must_prove_that_the_certificate_is_not_revoked() {
    let root = Root::new();
    let leaf = leaf();
    let certificate = root.authority.issue(&leaf).unwrap();
    let about = |status| OcspResponse::about(&certificate, status).unwrap();
    let sign =
        |response: &OcspResponse, key: &KeyPair| response.sign(&root.authority, key).unwrap();
    let by_issuer = |status| sign(&about(status), root.authority.key());
    let expired = OcspResponse {
        this_update: Time::now().plus_days(-9),
        next_update: Some(Time::now().plus_days(-2)),
        ..about(OcspStatus::Good)
    };
    let stranger = KeyPair::generate(KeyType::EcdsaP256).unwrap();
    for version in ["1.2", "1.3"] {
        let look = |staple: &[u8]| {
            let chain = [certificate.clone()];
            root.look(&chain, &leaf.key, staple, version)
        };
        is_green(&look(&by_issuer(OcspStatus::Good)));
        for (staple, words) in [
            (
                b"no response".to_vec(),
                "the stapled OCSP response cannot be read",
            ),
            (by_issuer(OcspStatus::Revoked), "is revoked"),
            (
                by_issuer(OcspStatus::Unknown),
                "does not know the certificate",
            ),
            (sign(&expired, root.authority.key()), "is expired"),
            (
                sign(&about(OcspStatus::Good), &stranger),
                "is signed neither by",
            ),
        ] {
            is_red(&look(&staple), "certificate_staple", words);
        }
    }
}

#[test]
fn a_certificate_with_must_staple_has_a_response() {
    let root = Root::new();
    let must_staple = Extension::new(oid::TLS_FEATURE, false, |der| {
        der.sequence(|der| der.integer(5));
    });
    let leaf = LeafOptions {
        extra_extensions: vec![must_staple],
        ..leaf()
    };
    let certificate = root.authority.issue(&leaf).unwrap();
    let good = OcspResponse::about(&certificate, OcspStatus::Good).unwrap();
    let good = good.sign(&root.authority, root.authority.key()).unwrap();
    for version in ["1.2", "1.3"] {
        let chain = [certificate.clone()];
        is_green(&root.look(&chain, &leaf.key, &good, version));
        let outcome = root.look(&chain, &leaf.key, b"", version);
        is_red(&outcome, "certificate_staple", "(must-staple), found none");
    }
}

/// rustls serves no RSA key of 1,024 bits, but OpenSSL does.
#[test]
fn an_rsa_key_of_1024_bits_is_too_short() {
    let root = Root::new();
    let openssl = |arguments: &[&str]| {
        let mut command = Command::new("openssl");
        command.args(arguments).current_dir(root.directory.path());
        let output = command.output().unwrap();
        assert!(output.status.success(), "{output:?}");
    };
    let generate = [
        "genpkey",
        "-algorithm",
        "RSA",
        "-pkeyopt",
        "rsa_keygen_bits:1024",
    ];
    openssl(&[&generate[..], &["-out", "key.pem"]].concat());
    openssl(&[
        "pkey", "-in", "key.pem", "-pubout", "-outform", "DER", "-out", "spki.der",
    ]);
    let mut template = root.authority.leaf_template(&leaf()).unwrap();
    template.spki = std::fs::read(root.file("spki.der")).unwrap();
    let certificate = root.authority.sign(&template).unwrap();
    let certificate = pem::encode("CERTIFICATE", &certificate);
    std::fs::write(root.file("cert.pem"), certificate).unwrap();
    let port = free_port();
    let _server = Launch::new("openssl")
        .args(["s_server", "-cipher", "DEFAULT:@SECLEVEL=0", "-www"])
        .args(["-accept", &port.to_string()])
        .arg("-cert")
        .arg(root.file("cert.pem"))
        .arg("-key")
        .arg(root.file("key.pem"))
        .start(([127, 0, 0, 1], port).into())
        .unwrap();
    for version in ["1.2", "1.3"] {
        let outcome = root.run(port, version);
        is_red(&outcome, "certificate_key", "an RSA key of 1024 bits");
    }
}
