//! The recipes of `docs/how-to/deploy` work, from an empty directory to a first SCT. Their shell
//! blocks run in order, with the addresses of test servers instead of the example addresses.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;

use crate::common::{EVENT_TIMEOUT, LUCARNE, assert_has, edit, eventually, pki, run};
use lucarne_mint::pem;
use lucarne_testkit::{
    AzureServer, Client, DatabaseKind, DatabaseServer, GcsServer, Launch, ObjectStore, TempDir,
    free_port, temp_dir, with_host_names,
};

/// A recipe, and the directory in which the test follows it.
pub(crate) struct Recipe {
    pub(crate) blocks: Vec<String>,
    pub(crate) directory: TempDir,
    port: u16,
}

impl Recipe {
    /// Reads a page with one server, which gets a free port.
    fn read(name: &str) -> Self {
        let recipe = Self::read_as_it_is(name);
        let here = format!("127.0.0.1:{}", recipe.port);
        recipe.with("127.0.0.1:6962", &here)
    }

    pub(crate) fn read_as_it_is(name: &str) -> Self {
        let file = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../../docs")
            .join(name);
        let text =
            fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let block = |rest: &str| rest.split_once("\n```").map(|(block, _)| block.to_owned());
        let recipe = Recipe {
            blocks: text.split("```sh\n").skip(1).filter_map(block).collect(),
            directory: temp_dir(),
            port: free_port(),
        };
        assert!(recipe.blocks.len() >= 5, "{name} has few commands");
        recipe
    }

    /// Replaces `from` in all blocks; `from` must occur.
    pub(crate) fn with(mut self, from: &str, to: &str) -> Self {
        assert_has(&self.blocks.join("\n"), from);
        for block in &mut self.blocks {
            *block = block.replace(from, to);
        }
        self
    }

    /// Replaces `https://minio.example:9000` by the store.
    fn with_store(self, store: &ObjectStore) -> Self {
        let access = format!("AWS_ACCESS_KEY_ID={}", store.access_key);
        let secret = format!("AWS_SECRET_ACCESS_KEY={}", store.secret_key);
        self.with("https://minio.example:9000", &store.endpoint)
            .with("AWS_ACCESS_KEY_ID=lucarne", &access)
            .with("AWS_SECRET_ACCESS_KEY=change-me", &secret)
    }

    /// Writes the authority of the servers' certificates to the file that the page names.
    fn with_private_ca(self) -> Self {
        let file = self.directory.path().join("private-ca.pem");
        fs::write(file, pki().root.certificate_pem()).unwrap();
        self
    }

    /// Returns a block as the reader's shell runs it: `lucarne` is in the path, and the credentials
    /// are loaded if they exist.
    pub(crate) fn shell(&self, block: &str) -> Launch {
        let load = "if [ -f lucarne.env ]; then set -a; . ./lucarne.env; set +a; fi";
        let binaries = Path::new(LUCARNE).parent().unwrap().display();
        let path = std::env::var("PATH").unwrap();
        Launch::new("/bin/sh")
            .args(["-eu", "-c"])
            .arg(format!("{load}\n{block}"))
            .env("PATH", format!("{binaries}:{path}"))
            .directory(self.directory.path())
    }

    /// Runs all blocks. The one block that does not end is the server.
    fn follow(&self) {
        let mut server = None;
        let mut said = String::new();
        for block in &self.blocks {
            if block.starts_with("lucarne serve") {
                let address = SocketAddr::from(([127, 0, 0, 1], self.port));
                let launch = self.shell(&format!("exec {block}"));
                server = Some(launch.start(address).unwrap());
                self.wait_until_well();
                continue;
            }
            let output = self.shell(block).run().unwrap();
            said = crate::common::all(&output);
            assert!(output.status.success(), "{block}\n{said}");
        }
        assert_has(&said, "entries promised: ");
        assert_has(&said, "proven, 0 late, 0 missing");
        assert!(!said.contains(" 0 entries promised"), "{said}");
        let mut server = server.expect("the recipe starts the log");
        assert!(server.stop(EVENT_TIMEOUT).unwrap().success());
    }

    fn wait_until_well(&self) {
        let client = Client::new(format!("http://127.0.0.1:{}", self.port));
        run(eventually("the log is healthy", async || {
            client.get("health").await.is_ok_and(|a| a.status == 200)
        }));
    }
}

/// Returns the certificate and key of a server with the names `hosts`, if these names lead to
/// loopback. `private-ca.pem` is the authority of the certificate. `None` in the process that
/// starts the test in this environment.
fn where_is(test: &str, hosts: &[&str]) -> Option<(String, String)> {
    if !with_host_names(test, hosts) {
        return None;
    }
    let mut leaf = pki().leaf(hosts[0]);
    leaf.names = hosts.iter().map(|host| host.to_string()).collect();
    let certificate = pem::encode("CERTIFICATE", &pki().root.issue(&leaf).unwrap());
    let key = pem::encode("PRIVATE KEY", &pki().leaf_key.to_pkcs8().unwrap());
    Some((certificate, key))
}

/// Starts MinIO behind TLS, with the host name in the pages.
fn minio(certificate: &str, key: &str) -> ObjectStore {
    let mut store = ObjectStore::minio_tls(certificate, key, "another").unwrap();
    store.endpoint = format!("https://minio.example:{}", store.address.port());
    let root = temp_dir();
    let file = root.path().join("root.pem");
    fs::write(&file, pki().root.certificate_pem()).unwrap();
    run(eventually("the store is ready", async || {
        let curl = Launch::new("curl").args(["-fsS", "--cacert"]).arg(&file);
        let output = curl
            .arg(format!("{}/minio/health/ready", store.endpoint))
            .run();
        output.is_ok_and(|output| output.status.success())
    }));
    store
}

#[test]
fn s3_and_mariadb() {
    let hosts = ["minio.example", "db.example"];
    let Some((certificate, key)) = where_is("s3_and_mariadb", &hosts) else {
        return;
    };
    let store = minio(&certificate, &key);
    let database = DatabaseServer::start_tls(DatabaseKind::MariaDb, &certificate, &key).unwrap();
    Recipe::read("how-to/deploy/s3-mariadb.md")
        .with_private_ca()
        .with_store(&store)
        .with("sudo mariadb", &database.administrator().unwrap())
        .with(
            "db.example:3306",
            &format!("db.example:{}", database.address().port()),
        )
        .follow();
}

#[test]
fn s3_alone() {
    let Some((certificate, key)) = where_is("s3_alone", &["minio.example"]) else {
        return;
    };
    let store = minio(&certificate, &key);
    Recipe::read("how-to/deploy/s3.md")
        .with_private_ca()
        .with_store(&store)
        .follow();
}

#[test]
fn gcs_alone() {
    let server = GcsServer::start().unwrap();
    run(server.make_bucket("lucarne")).unwrap();
    Recipe::read("how-to/deploy/gcs.md")
        .with(
            "GCS_ENDPOINT=http://127.0.0.1:40123",
            &format!("GCS_ENDPOINT={}", server.endpoint),
        )
        .follow();
}

#[test]
fn azure_alone() {
    let server = AzureServer::start().unwrap();
    let container = run(server.new_container()).unwrap();
    Recipe::read("how-to/deploy/azure.md")
        .with(
            "AZURE_ENDPOINT=http://127.0.0.1:10000/devstoreaccount1",
            &format!("AZURE_ENDPOINT={}", server.endpoint),
        )
        .with(
            "AZURE_STORAGE_ACCOUNT_KEY=change-me",
            &format!("AZURE_STORAGE_ACCOUNT_KEY={}", server.key),
        )
        .with(
            "az://lucarne/lock/?account=dev",
            &format!("az://{container}/lock/?account=dev"),
        )
        .with(
            "azurecontainer: lucarne",
            &format!("azurecontainer: {container}"),
        )
        .follow();
}

#[test]
fn posix_and_postgresql() {
    let Some((certificate, key)) = where_is("posix_and_postgresql", &["db.example"]) else {
        return;
    };
    let database = DatabaseServer::start_tls(DatabaseKind::Postgres, &certificate, &key).unwrap();
    let recipe = Recipe::read("how-to/deploy/posix-postgresql.md")
        .with_private_ca()
        .with("sudo -u postgres psql", &database.administrator().unwrap())
        .with(
            "db.example:5432",
            &format!("db.example:{}", database.address().port()),
        );
    recipe.follow();
    // The same server has another name, or its authority is not configured.
    for (file, from, to) in [
        ("lucarne.yaml", "@db.example", "@localhost"),
        ("lucarne.env", "SSL_CERT_FILE", "NO_CERT_FILE"),
    ] {
        let file = recipe.directory.path().join(file);
        let right = fs::read_to_string(&file).unwrap();
        edit(&file, from, to);
        let output = recipe.shell("lucarne check -c lucarne.yaml").run().unwrap();
        fs::write(&file, right).unwrap();
        let all = crate::common::all(&output);
        assert!(!output.status.success(), "{all}");
        assert_has(&all, "certificate");
    }
}

/// The instances that a page has started, by their PID files.
struct Started<'r>(&'r Recipe);

impl Started<'_> {
    fn kill(&self) {
        let kill = "for n in 1 2 3; do kill -9 \"$(cat instance$n.pid)\" || true; done";
        let _ = self.0.shell(kill).run();
    }
}

impl Drop for Started<'_> {
    fn drop(&mut self) {
        self.kill();
        // The logs have the reason, and are removed with the directory.
        if std::thread::panicking()
            && let Ok(logs) = self.0.shell("tail -n 40 instance?.log").run()
        {
            eprintln!("{}", crate::common::all(&logs));
        }
    }
}

/// Returns a number that gives three free ports with the digits 1, 2 and 3 appended.
fn free_tens() -> u16 {
    loop {
        let first = free_port();
        let follow = |n: u16| free_port() == first + n;
        if first % 10 == 1 && follow(1) && follow(2) {
            return first / 10;
        }
    }
}

#[test]
fn several_instances() {
    let store = ObjectStore::minio().unwrap();
    let (clients, instances) = (free_tens(), free_tens());
    let recipe = Recipe::read_as_it_is("how-to/deploy/instances.md")
        .with_store(&store)
        .with("127.0.0.1:696", &format!("127.0.0.1:{clients}"))
        .with("127.0.0.1:697", &format!("127.0.0.1:{instances}"));
    let started = Started(&recipe);
    let (mut loads, mut killed) = (0, false);
    for block in &recipe.blocks {
        let serves = block.contains("lucarne serve");
        // Processes in the background of the block must not keep its output open.
        let (block, loaded) = if serves {
            (format!("{{\n{block}\n}} >/dev/null"), false)
        } else {
            (block.clone(), block.contains("lucarne load"))
        };
        let output = recipe.shell(&block).run().unwrap();
        let said = crate::common::all(&output);
        assert!(output.status.success(), "{block}\n{said}");
        killed |= block.contains("kill -9");
        if loaded {
            assert_has(&said, "proven, 0 late, 0 missing");
            assert!(!said.contains(" 0 entries promised"), "{said}");
            loads += 1;
        }
        if serves {
            one_leads(clients);
        }
    }
    assert!(killed && loads == 2, "{loads}");
    drop(started);
}

/// Waits until one instance leads and all are healthy.
fn one_leads(ports: u16) {
    run(eventually("one leads", async || {
        let mut leaders = 0;
        for n in 1..=3 {
            let client = Client::new(format!("http://127.0.0.1:{ports}{n}"));
            let Ok(answer) = client.get("health").await else {
                return false;
            };
            leaders += usize::from(answer.text().contains("\"running\""));
            if answer.status != 200 {
                return false;
            }
        }
        leaders == 1
    }));
}
