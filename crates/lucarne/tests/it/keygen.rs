//! `lucarne keygen`.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::common::{assert_has, lucarne};
use lucarne_testkit::temp_dir;

/// Test vectors generated with Sunlight's key generator.
#[test]
fn a_seed_of_sunlight_gives_the_same_log() {
    let directory = temp_dir();
    let vectors: [(Vec<u8>, &str, &str); 2] = [
        (
            (0..32).collect(),
            "vajQ/CaKPdKwq3De7U+r1exMHdq4cu1OxwlURya7KaI=",
            "MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEJYiFX1XUJTOISfsKZeBUvOun+vC8k8a8XclPz5nki3AJNivyNffzHlczWPzCYGKmfS8oGZkHhQmSq+mp7ItrOA==",
        ),
        (
            vec![0xff; 32],
            "hMAax0PPdyDMAkBH9XSfq7Hl2MPuF1P0Vzmde/AxFUQ=",
            "MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE9PM/NakueWnU2izD1jwdEgEr93ZA/fAB49i94ezvBa3V5ofHFSNTxf13rmY/4XIQ33FKluafqqgRQ9TV+n8FUA==",
        ),
    ];
    for (seed, id, key) in vectors {
        let file = directory.path().join("seed.bin");
        lucarne_testkit::write_secret(&file, &seed);
        let (code, said) = lucarne(directory.path(), &["keygen", "-f", "seed.bin"]);
        assert_eq!(code, 0, "{said}");
        assert_has(&said, &format!("Log ID:     {id}\n"));
        assert_has(&said, &format!("Public key: {key}\n"));
        assert_has(&said, "exists and was not changed");
        assert_eq!(fs::read(&file).unwrap(), seed);
    }
}

#[test]
fn a_new_seed_is_secret_and_stays() {
    let directory = temp_dir();
    let file = directory.path().join("new.bin");
    let (code, first) = lucarne(directory.path(), &["keygen", "-f", "new.bin"]);
    assert_eq!(code, 0, "{first}");
    assert_has(&first, "created new.bin");
    assert_has(&first, "-----BEGIN PUBLIC KEY-----");
    let seed = fs::read(&file).unwrap();
    assert_eq!(seed.len(), 32);
    assert_eq!(
        fs::metadata(&file).unwrap().permissions().mode() & 0o777,
        0o600
    );
    let (code, second) = lucarne(directory.path(), &["keygen", "-f", "new.bin"]);
    assert_eq!(code, 0, "{second}");
    assert_eq!(fs::read(&file).unwrap(), seed);
    let id = |said: &str| {
        said.lines()
            .find(|line| line.starts_with("Log ID"))
            .unwrap()
            .to_owned()
    };
    assert_eq!(id(&first), id(&second));
}

#[test]
fn a_file_that_is_no_seed_is_refused_and_kept() {
    let directory = temp_dir();
    fs::write(directory.path().join("x"), "hello").unwrap();
    let (code, said) = lucarne(directory.path(), &["keygen", "-f", "x"]);
    assert_eq!(code, 1);
    assert_has(&said, "nothing was changed");
    assert_eq!(fs::read(directory.path().join("x")).unwrap(), b"hello");
    let (code, said) = lucarne(directory.path(), &["keygen", "-f", "no/such/x"]);
    assert_eq!(code, 1);
    assert_has(&said, "cannot create no/such/x");
    assert_eq!(lucarne(directory.path(), &["keygen"]).0, 2);
}

#[test]
fn a_link_to_no_file_is_reported() {
    let directory = temp_dir();
    std::os::unix::fs::symlink("nowhere", directory.path().join("link.bin")).unwrap();
    let (code, said) = lucarne(directory.path(), &["keygen", "-f", "link.bin"]);
    assert_eq!(code, 1, "{said}");
    assert_has(
        &said,
        "link.bin is a symbolic link to a file that does not exist",
    );
    assert!(!directory.path().join("nowhere").exists());
}

/// The key IDs were computed with OpenSSL.
#[test]
fn the_verifier_key_of_the_second_signature_is_printed_for_an_origin() {
    let directory = temp_dir();
    let seed: Vec<u8> = (0..32).collect();
    lucarne_testkit::write_secret(directory.path().join("seed.bin"), seed);
    let keygen = |origin: &str| {
        let args = ["keygen", "-f", "seed.bin", "--origin", origin];
        lucarne(directory.path(), &args)
    };
    let (code, said) = keygen("log.example/2026h2");
    assert_eq!(code, 0, "{said}");
    assert_has(&said, "\nlog.example/2026h2+0b4c2b6e+B");
    let (code, said) = keygen("a b");
    assert_eq!(code, 1, "{said}");
    assert_has(
        &said,
        "--origin a b: the name of the key is empty, or has a space",
    );
}
