//! Keys in AWS Secrets Manager (moto's server) and GCP Secret Manager (a simulated server).

use std::fs;

use crate::common::{EVENT_TIMEOUT, LUCARNE, all, assert_has, pki, ready, run, submission};
use base64_simd::STANDARD;
use lucarne_ct::{EntryKind, LogKey};
use lucarne_testkit::{Audit, Launch, LogUnderTest, Moto, SecretManager, free_port};
use serde_json::{Value, json};

/// The log ID of [`seed`], computed by Sunlight's key generator.
const LOG_ID: &str = "vajQ/CaKPdKwq3De7U+r1exMHdq4cu1OxwlURya7KaI=";
/// The CRC-32C of [`seed`]: RFC 3720, appendix B.4.
const CHECKSUM: u32 = 0x46dd_794e;

fn seed() -> Vec<u8> {
    (0..32).collect()
}

/// A log that was created with its key in a file, and the environment of its server, which is
/// independent of the machine.
struct Moved {
    log: LogUnderTest,
    environment: Vec<(&'static str, String)>,
}

impl Moved {
    fn new(environment: &[(&'static str, &str)]) -> Self {
        let log = LogUnderTest::prepare(LUCARNE, &pki().root.certificate_pem(), "").unwrap();
        let file = log.path().join("seed.bin");
        lucarne_testkit::write_secret(&file, seed());
        let made = log.launch("init").run().unwrap();
        assert!(made.status.success(), "{}", all(&made));
        fs::remove_file(file).unwrap();
        // No server listens at the address for credentials of an instance.
        let nobody = format!("127.0.0.1:{}", free_port());
        let environment = environment
            .iter()
            .map(|(name, value)| (*name, (*value).to_owned()));
        let defaults = [
            ("HOME", log.path().display().to_string()),
            ("AWS_METADATA_ENDPOINT", format!("http://{nobody}")),
            ("GCE_METADATA_HOST", nobody.clone()),
            ("GCE_METADATA_IP", nobody),
        ];
        let environment = defaults.into_iter().chain(environment).collect();
        Self { log, environment }
    }

    /// Configures the place of the key.
    fn key_at(&self, place: &str) -> &Self {
        let file = self.log.configuration();
        let text = fs::read_to_string(&file).unwrap();
        let line = |line: &str| {
            if line.trim_start().starts_with("secret:") {
                format!("    secret: {place}\n")
            } else {
                format!("{line}\n")
            }
        };
        fs::write(&file, text.lines().map(line).collect::<String>()).unwrap();
        self
    }

    fn launch(&self, command: &str) -> Launch {
        let environment = self.environment.iter();
        environment.fold(self.log.launch(command), |launch, (name, value)| {
            launch.env(*name, value)
        })
    }

    /// Checks that the server uses the key with which the log was created.
    fn serves(&self) {
        let mut server = self.launch("serve").start(self.log.address()).unwrap();
        run(async {
            ready(&self.log).await;
            let client = self.log.client();
            let about = client.get("log.v3.json").await.unwrap().json().unwrap();
            assert_eq!(about["log_id"], LOG_ID, "{about:#}");
            let key = LogKey::from_seed(&seed()).unwrap();
            let (url, origin) = (self.log.url(), self.log.origin());
            let roots = pki().root.certificate_pem();
            let audit = Audit::new(&url, &origin, key.public_key_spki(), roots.as_bytes());
            let (audit, body) = (audit.unwrap(), submission(&pki().p256));
            let answer = client.post("ct/v1/add-chain", body.clone()).await.unwrap();
            let sct = answer.ok().unwrap();
            audit.promised(EntryKind::X509, body.as_bytes(), &sct);
            audit.run().await.unwrap().assert_clean();
        });
        assert!(server.stop(EVENT_TIMEOUT).unwrap().success());
    }

    /// Returns the output of `check`, which must succeed.
    fn checks(&self) -> String {
        let checked = self.launch("check").run().unwrap();
        assert!(checked.status.success(), "{}", all(&checked));
        all(&checked)
    }

    /// Checks that `check` and `serve` reject the configuration with these words.
    #[track_caller]
    fn refuses(&self, parts: &[&str]) {
        for command in ["check", "serve"] {
            let refused = self.launch(command).run().unwrap();
            let said = all(&refused);
            assert_eq!(refused.status.code(), Some(1), "{said}");
            assert_has(&said, "lucarne.yaml:");
            assert_has(&said, "logs[test].secret: ");
            for part in parts {
                assert_has(&said, part);
            }
            let base64 = STANDARD.encode_to_string(seed());
            assert!(!said.contains(&base64), "the key is said:\n{said}");
        }
    }
}

/// Arbitrary credentials, which moto accepts while authentication is disabled.
const ANY: [(&str, &str); 2] = [
    ("AWS_ACCESS_KEY_ID", "any"),
    ("AWS_SECRET_ACCESS_KEY", "any"),
];

fn at_moto(moto: &Moto, region: &str, name: &str) -> String {
    let endpoint = &moto.endpoint;
    format!("awssecret://{name}?region={region}&endpoint={endpoint}")
}

#[test]
fn a_log_signs_with_a_key_from_aws() {
    let moto = Moto::start().unwrap();
    let base64 = STANDARD.encode_to_string(seed());
    let arn = run(async {
        let (text, binary) = (["SecretString", &*base64], ["SecretBinary", &*base64]);
        let made = moto.new_secret("eu-west-1", "binary", binary).await;
        made.unwrap();
        moto.new_secret("eu-west-1", "ct/text", text).await.unwrap()
    });
    let moved = Moved::new(&ANY);
    let text = at_moto(&moto, "eu-west-1", "ct/text");
    moved.key_at(&text).serves();
    moved
        .key_at(&at_moto(&moto, "eu-west-1", "binary"))
        .serves();
    let arn = format!("{arn}?endpoint={}", moto.endpoint);
    moved.key_at(&arn).checks();

    // This machine, by an address that may also belong to another machine.
    let elsewhere = text.replace("127.0.0.1", "0.0.0.0");
    let said = moved.key_at(&elsewhere).checks();
    assert_has(&said, "without TLS: an eavesdropper");
}

#[test]
fn what_aws_has_may_not_be_the_key() {
    let moto = Moto::start().unwrap();
    let pem = lucarne_mint::pem::encode("EC PRIVATE KEY", b"of nobody");
    run(async {
        for (name, value) in [("short", "AAECAw=="), ("pem", &pem)] {
            let value = ["SecretString", value];
            moto.new_secret("eu-west-1", name, value).await.unwrap();
        }
    });
    let unknown = "(ResourceNotFoundException: Secrets Manager can't find";
    let no_name = "an invalid secret name";
    let moved = Moved::new(&ANY);
    for (region, name, parts) in [
        (
            "eu-west-1",
            "ct",
            ["AWS secret `ct` does not exist at", unknown],
        ),
        ("eu-west-2", "short", ["in eu-west-2 ", unknown]),
        (
            "eu-west-1",
            "short",
            ["AWS secret `short`", "is not a key: expected"],
        ),
        ("eu-west-1", "pem", ["AWS secret `pem`", "is not a log key"]),
        ("eu-west-1", r#"ct/sh"ort"#, [r#"ct/sh"ort"#, no_name]),
        ("eu-west-1", r"sh\ort", [r"sh\ort", no_name]),
    ] {
        moved.key_at(&at_moto(&moto, region, name)).refuses(&parts);
    }
}

#[test]
fn aws_serves_who_signs_and_is_allowed() {
    let moto = Moto::start().unwrap();
    let base64 = STANDARD.encode_to_string(seed());
    let (reader, stranger) = run(async {
        let secret = ["SecretString", &*base64];
        moto.new_secret("us-east-1", "ct", secret).await.unwrap();
        let reader = moto
            .new_user("reader", "secretsmanager:GetSecretValue")
            .await;
        let stranger = moto.new_user("stranger", "s3:GetObject").await;
        moto.enforce().await.unwrap();
        (reader.unwrap(), stranger.unwrap())
    });
    let place = format!("awssecret://ct?endpoint={}", moto.endpoint);
    let moved = |[access_key, secret_key]: &[String; 2]| {
        let moved = Moved::new(&[
            ("AWS_ACCESS_KEY_ID", access_key),
            ("AWS_SECRET_ACCESS_KEY", secret_key),
            ("AWS_REGION", "us-east-1"),
        ]);
        moved.key_at(&place);
        moved
    };
    moved(&reader).checks();
    let permission = "have the permission secretsmanager:GetSecretValue";
    let refusal = ["AWS secret `ct` is refused by", permission];
    moved(&stranger).refuses(&refusal);
    let [access_key, _] = reader;
    moved(&[access_key, "wrong".into()]).refuses(&refusal);
}

#[test]
fn without_aws_there_is_no_key() {
    let nobody = format!("http://127.0.0.1:{}", free_port());
    let place = format!("awssecret://ct?region=eu-west-1&endpoint={nobody}");
    let moved = Moved::new(&ANY);
    let absent = format!("AWS secret `ct` cannot be fetched: {nobody} in eu-west-1 is unavailable");
    moved.key_at(&place).refuses(&[&absent, "refused"]);
    let wrong = "awssecret://ct?region=eu-west-1&endpoint=127.0.0.1";
    moved
        .key_at(wrong)
        .refuses(&["`ct` cannot be requested", "the endpoint is not a URL"]);
    let wrong = "awssecret://ct?region=eu/west";
    moved
        .key_at(wrong)
        .refuses(&["\"eu/west\" is not a valid region"]);
    let unknown = Moved::new(&[]);
    unknown
        .key_at(&place)
        .refuses(&["AWS secret `ct` cannot be requested without credentials"]);
}

const SECRET: &str = "projects/p/secrets/ct";

fn payload(bytes: &[u8]) -> Value {
    json!({ "data": STANDARD.encode_to_string(bytes) })
}

/// Returns a payload with its checksum, a string as all 64-bit integers in Google's JSON.
fn checked(bytes: &[u8], checksum: u32) -> Value {
    let mut payload = payload(bytes);
    payload["dataCrc32c"] = checksum.to_string().into();
    payload
}

#[test]
fn a_log_signs_with_a_key_from_gcp() {
    let manager = SecretManager::start().unwrap();
    let good = checked(&seed(), CHECKSUM);
    manager.add(&format!("{SECRET}/versions/latest"), good);
    manager.add(&format!("{SECRET}/versions/1"), payload(&seed()));
    let place = |version: &str| {
        format!(
            "gcpsecret://{SECRET}{version}?endpoint={}",
            manager.endpoint
        )
    };

    // The token of the instance.
    let moved = Moved::new(&[("GCE_METADATA_HOST", &manager.host)]);
    moved.key_at(&place("")).serves();
    moved.key_at(&place("/versions/1")).serves();

    // The token of a service account, from a file in an environment variable, and from a file in
    // the URL.
    let mut moved = Moved::new(&[]);
    let file = moved.log.path().join("account.json");
    fs::write(&file, manager.service_account()).unwrap();
    moved
        .key_at(&format!("{}&credentials=account.json", place("")))
        .checks();
    let variable = "GOOGLE_APPLICATION_CREDENTIALS";
    moved
        .environment
        .push((variable, file.display().to_string()));
    moved.key_at(&place("")).serves();
}

#[test]
fn without_gcp_there_is_no_key() {
    let manager = SecretManager::start().unwrap();
    let version = |name: &str| format!("projects/p/secrets/{name}/versions/latest");
    manager.deny(&version("denied"));
    manager.add(&version("damaged"), checked(&seed(), CHECKSUM + 1));
    manager.add(
        &version("odd"),
        json!({ "data": "AAECAw==", "dataCrc32c": "x" }),
    );
    manager.add(&version("short"), payload(b"four"));
    manager.add(&version("empty"), json!({}));
    let moved = Moved::new(&[("GCE_METADATA_HOST", &manager.host)]);
    let place = |name: &str| {
        let endpoint = &manager.endpoint;
        format!("gcpsecret://projects/p/secrets/{name}?endpoint={endpoint}")
    };
    let permission = "have the permission secretmanager.versions.access";
    let denied = [
        "GCP secret `projects/p/secrets/denied/versions/latest` is refused by",
        "(PERMISSION_DENIED: Permission",
        permission,
    ];
    moved.key_at(&place("denied")).refuses(&denied);
    let absent = [
        "`projects/p/secrets/none/versions/latest` does not exist at",
        "(NOT_FOUND: Secret",
    ];
    moved.key_at(&place("none")).refuses(&absent);
    for name in ["damaged", "odd"] {
        moved
            .key_at(&place(name))
            .refuses(&["does not match its checksum"]);
    }
    moved.key_at(&place("short")).refuses(&["found 4 bytes"]);
    moved
        .key_at(&place("empty"))
        .refuses(&["cannot be fetched: the response has no value"]);
    let anonymous = format!("{}&credentials=none", place("short"));
    moved
        .key_at(&anonymous)
        .refuses(&["is refused by", "(UNAUTHENTICATED: "]);

    let unknown = Moved::new(&[]);
    unknown
        .key_at(&place("short"))
        .refuses(&["cannot be requested without credentials"]);
    let missing = format!("{}&credentials=none.json", place("short"));
    unknown
        .key_at(&missing)
        .refuses(&["cannot be requested: ", "none.json"]);
    let nobody = format!("http://127.0.0.1:{}", free_port());
    let place = format!("gcpsecret://{SECRET}?endpoint={nobody}");
    moved
        .key_at(&place)
        .refuses(&[&format!("{nobody} is unavailable"), "refused"]);
}
