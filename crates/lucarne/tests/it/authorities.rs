//! Certificate authorities for tests: `lucarne ca mint`, `ca inspect`, and `serve --testcert`.

use std::os::unix::fs::PermissionsExt;

use crate::common::site::Site;
use crate::common::{assert_has, lucarne};
use lucarne_mint::{Authority, CaDirectory};

#[test]
fn a_ca_is_made_once_described_and_kept_secret() {
    let home = lucarne_testkit::temp_dir();
    let mint = ["ca", "mint", "own", "--key-type", "p384", "--days", "30"];
    let (code, said) = lucarne(home.path(), &mint);
    assert_eq!(code, 0, "{said}");
    for word in [
        "created own",
        "Lucarne local CA",
        "SHA-256",
        "curl --cacert",
        "chromium",
    ] {
        assert_has(&said.to_lowercase(), &word.to_lowercase());
    }
    let key = home.path().join("own/ca-key.pem");
    let mode = std::fs::metadata(&key).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let before = std::fs::read(&key).unwrap();
    let (code, said) = lucarne(home.path(), &mint);
    assert_eq!(code, 0, "{said}");
    assert_has(&said, "kept own");
    assert_eq!(std::fs::read(&key).unwrap(), before);

    let (code, said) = lucarne(home.path(), &["ca", "inspect", "own"]);
    assert_eq!(code, 0, "{said}");
    assert_has(&said, "CA certificate CN=Lucarne local CA");
    let (code, said) = lucarne(home.path(), &["ca", "inspect", "own/ca.pem"]);
    assert_eq!(code, 0, "{said}");
    assert!(!said.contains("private key"), "{said}");
    let (_, said) = lucarne(home.path(), &["ca", "inspect", "own/ca-key.pem"]);
    assert_has(&said, "keep this file secret");

    for name in [String::new(), "x".repeat(65), "a\nb".to_owned()] {
        let (code, said) = lucarne(home.path(), &["ca", "mint", "other", "--name", &name]);
        assert_eq!(code, 1, "{said}");
        assert_has(&said, "--name: expected 1 to 64 characters");
        assert!(!home.path().join("other").exists());
    }

    let open = std::fs::Permissions::from_mode(0o644);
    std::fs::set_permissions(&key, open).unwrap();
    let (code, said) = lucarne(home.path(), &["ca", "inspect", "own"]);
    assert_eq!(code, 1);
    assert_has(&said, "chmod 600");
    let (code, said) = lucarne(home.path(), &["ca", "inspect", "nothing"]);
    assert_eq!(code, 1);
    assert_has(&said, "nothing");
}

#[test]
fn testcert_has_a_certificate_for_whatever_name_is_asked_for() {
    let site = Site::create([("test", String::new())]);
    let cache = site.path().join("test-cache/testcert");
    let root =
        |directory: &std::path::Path| -> Authority { CaDirectory::at(directory).open().unwrap() };
    let served = |root: &Authority| crate::common::tls::subject_names(site.address(), root);
    let server = site.launch().arg("--testcert").start(site.address());
    let server = server.unwrap();
    let ca = root(&cache);
    assert_eq!(served(&ca), "first.example.com");
    drop(server);

    // The next start uses the same CA and its certificates; another directory has another CA.
    let server = site.launch().arg("--testcert").start(site.address());
    let server = server.unwrap();
    assert_eq!(served(&ca), "first.example.com");
    assert_eq!(root(&cache).cert_der(), ca.cert_der());
    drop(server);
    let elsewhere = site.path().join("elsewhere");
    let launch = site.launch().arg("--testcert").arg(&elsewhere);
    let server = launch.start(site.address()).unwrap();
    assert_eq!(served(&ca), "", "another CA");
    assert_eq!(served(&root(&elsewhere)), "first.example.com");
    drop(server);
}

#[test]
fn testcert_does_not_compete_with_a_certificate() {
    let site = Site::create([("test", String::new())]);
    let file = site.configuration();
    let text = std::fs::read_to_string(&file).unwrap();
    let chain = crate::common::pki().certificate(&crate::common::pki().rsa, "a.test");
    std::fs::write(site.path().join("tls.pem"), chain.unwrap().to_pem()).unwrap();
    let key = crate::common::pki().leaf_key.to_pkcs8().unwrap();
    let key = lucarne_mint::pem::encode("PRIVATE KEY", &key);
    lucarne_testkit::write_secret(site.path().join("tls.key"), key);
    let both = text + "tls: {certificate: tls.pem, key: tls.key}\n";
    std::fs::write(&file, both).unwrap();
    let (code, said) = site.lucarne(&["serve", "--testcert"]);
    assert_eq!(code, 1, "{said}");
    assert_has(&said, "remove one of the two");
}
