use anyhow::{Context, Result};
use bytes::Bytes;
use http::Method;
use serde_json::{Value, json};
use url::form_urlencoded::Serializer;

use crate::{
    Client, Launch, Server,
    stores::{MOTO, START_TIMEOUT, loopback, tool},
};

/// The moto server on loopback: the APIs of Amazon as far as moto supports them, in memory. The
/// server accepts all credentials until [`enforce`](Self::enforce).
#[derive(Debug)]
pub struct Moto {
    /// URL of all services and regions: `http://127.0.0.1:port`. moto selects service and region by
    /// the credentials.
    pub endpoint: String,
    client: Client,
    _server: Server,
}

/// An unassigned key of valid length.
const ACCESS_KEY: &str = "AKIAIOSFODNN7EXAMPLE";

impl Moto {
    /// Starts the server.
    ///
    /// # Errors
    /// If the server is not installed or does not start: the message has the remedy.
    pub fn start() -> Result<Self> {
        let address = loopback();
        let launch = Launch::new(tool(MOTO)?)
            // The installed script has the path of its original installation, so the module is run
            // instead.
            .args(["-m", "moto.server", "--host", "127.0.0.1"])
            .args(["--port", &address.port().to_string()]);
        let endpoint = format!("http://{address}");
        Ok(Self {
            client: Client::new(endpoint.clone()),
            endpoint,
            _server: launch.patience(START_TIMEOUT).start(address)?,
        })
    }

    /// Creates a secret in Secrets Manager and returns its ARN. `value` is `SecretString` and a
    /// text, or `SecretBinary` and base64.
    ///
    /// # Errors
    /// The error of the server.
    pub async fn new_secret(&self, region: &str, name: &str, value: [&str; 2]) -> Result<String> {
        let [kind, value] = value;
        let secret = json!({ "Name": name, kind: value });
        let headers = [
            ("authorization", &*nobody(region, "secretsmanager")),
            ("x-amz-target", "secretsmanager.CreateSecret"),
            ("content-type", "application/x-amz-json-1.1"),
        ];
        let made: Value =
            serde_json::from_slice(&self.post("", &headers, secret.to_string()).await?)?;
        Ok(made["ARN"]
            .as_str()
            .context("the response has no ARN")?
            .to_owned())
    }

    /// Creates a user with one permission (`service:Action`); returns its access key and secret
    /// key.
    ///
    /// # Errors
    /// The error of the server.
    pub async fn new_user(&self, name: &str, action: &str) -> Result<[String; 2]> {
        let statement = json!({ "Effect": "Allow", "Action": action, "Resource": "*" });
        let policy = json!({ "Version": "2012-10-17", "Statement": [statement] }).to_string();
        self.identity("CreateUser", name, &[]).await?;
        let document = [("PolicyName", "one"), ("PolicyDocument", &policy)];
        self.identity("PutUserPolicy", name, &document).await?;
        let made = self.identity("CreateAccessKey", name, &[]).await?;
        let element = |name: &str| {
            let (_, rest) = made.split_once(&format!("<{name}>"))?;
            Some(rest.split_once("</")?.0.to_owned())
        };
        let keys = || Some([element("AccessKeyId")?, element("SecretAccessKey")?]);
        keys().context("the response has no access key")
    }

    /// Enforces credentials and permissions of users from now on.
    ///
    /// # Errors
    /// The error of the server.
    pub async fn enforce(&self) -> Result<()> {
        let text = [("content-type", "text/plain")];
        self.post("moto-api/reset-auth", &text, "0".into()).await?;
        Ok(())
    }

    /// Sends an action of IAM for this user.
    async fn identity(&self, action: &str, user: &str, more: &[(&str, &str)]) -> Result<String> {
        let form = Serializer::new(String::new())
            .extend_pairs([("Action", action), ("Version", "2010-05-08")])
            .append_pair("UserName", user)
            .extend_pairs(more)
            .finish();
        let headers = [
            ("authorization", &*nobody("us-east-1", "iam")),
            ("content-type", "application/x-www-form-urlencoded"),
        ];
        let answer = self.post("", &headers, form).await?;
        Ok(String::from_utf8_lossy(&answer).into_owned())
    }

    async fn post(&self, path: &str, headers: &[(&str, &str)], body: String) -> Result<Bytes> {
        let answer = self
            .client
            .request(Method::POST, path, headers, body.into());
        answer.await?.ok()
    }
}

/// Returns the header of an invalid signature, which names service and region.
fn nobody(region: &str, service: &str) -> String {
    format!(
        "AWS4-HMAC-SHA256 Credential={ACCESS_KEY}/20260101/{region}/{service}/aws4_request, \
         SignedHeaders=host, Signature=00"
    )
}
