//! The recipes of `docs/deploy` do what they say, from nothing to a first SCT:
//! their shell blocks are run in order, with the addresses of servers that the
//! tests start in place of the examples.
#![allow(clippy::unwrap_used)]

mod common;

use std::fs;
use std::net::SocketAddr;
use std::path::Path;

use common::{LUCARNE, PATIENCE, assert_has, eventually, run};
use lucarne_testkit::{
    Bucket, Client, DatabaseKind, DatabaseServer, GcsServer, Launch, ObjectStore, TempDir,
    free_port, temp_dir,
};

/// A recipe, and where it is followed.
struct Recipe {
    blocks: Vec<String>,
    directory: TempDir,
    port: u16,
}

impl Recipe {
    fn read(name: &str) -> Self {
        let file = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../../docs/deploy")
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
        let here = format!("127.0.0.1:{}", recipe.port);
        recipe.with("127.0.0.1:6962", &here)
    }

    /// Puts one thing in the place of another, which must be there.
    fn with(mut self, from: &str, to: &str) -> Self {
        assert_has(&self.blocks.join("\n"), from);
        for block in &mut self.blocks {
            *block = block.replace(from, to);
        }
        self
    }

    /// The store in the place of `https://minio.example:9000`.
    fn with_store(self, store: &ObjectStore) -> Self {
        let access = format!("AWS_ACCESS_KEY_ID={}", store.access_key);
        let secret = format!("AWS_SECRET_ACCESS_KEY={}", store.secret_key);
        self.with("https://minio.example:9000", &store.endpoint)
            .with("AWS_ACCESS_KEY_ID=lucarne", &access)
            .with("AWS_SECRET_ACCESS_KEY=change-me", &secret)
    }

    /// A block, as the shell of its reader would run it: `lucarne` is in the
    /// path, and the credentials are loaded once there are some.
    fn shell(&self, block: &str) -> Launch {
        let load = "if [ -f lucarne.env ]; then set -a; . ./lucarne.env; set +a; fi";
        let binaries = Path::new(LUCARNE).parent().unwrap().display();
        let path = std::env::var("PATH").unwrap();
        Launch::new("/bin/sh")
            .args(["-eu", "-c"])
            .arg(format!("{load}\n{block}"))
            .env("PATH", format!("{binaries}:{path}"))
            .directory(self.directory.path())
    }

    /// Runs all of it. The one block that does not end is the server.
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
            said = common::all(&output);
            assert!(output.status.success(), "{block}\n{said}");
        }
        assert_has(&said, "entries promised: ");
        assert_has(&said, "proven, 0 late, 0 missing");
        assert!(!said.contains(" 0 entries promised"), "{said}");
        let mut server = server.expect("the recipe starts the log");
        assert!(server.stop(PATIENCE).unwrap().success());
    }

    fn wait_until_well(&self) {
        let client = Client::new(format!("http://127.0.0.1:{}", self.port));
        run(eventually("the log is healthy", async || {
            client.get("health").await.is_ok_and(|a| a.status == 200)
        }));
    }
}

#[test]
fn s3_and_mariadb() {
    // Its bucket is not used: it shows that the store takes requests.
    let bucket = run(Bucket::minio()).unwrap();
    let database = DatabaseServer::shared(DatabaseKind::MariaDb).unwrap();
    Recipe::read("s3-mariadb.md")
        .with_store(&bucket.store)
        .with("sudo mariadb", &database.administrator().unwrap())
        .with("db.example:3306", &database.address().to_string())
        .with("?ssl-mode=VERIFY_IDENTITY", "")
        .follow();
}

#[test]
fn s3_alone() {
    let bucket = run(Bucket::versitygw()).unwrap();
    Recipe::read("s3.md").with_store(&bucket.store).follow();
}

#[test]
fn gcs_alone() {
    let server = GcsServer::shared().unwrap();
    let bucket = run(server.new_bucket()).unwrap();
    let endpoint = &server.endpoint;
    let lock = format!("gs://{bucket}/lock/?endpoint={endpoint}&credentials=none");
    let emulator = format!("{bucket}\n    gcsendpoint: {endpoint}\n    gcscredentials: none\n");
    Recipe::read("gcs.md")
        .with("gs://lucarne/lock/", &lock)
        .with("gcsbucket: lucarne\n", &format!("gcsbucket: {emulator}"))
        .follow();
}

#[test]
fn posix_and_postgresql() {
    let database = DatabaseServer::shared(DatabaseKind::Postgres).unwrap();
    Recipe::read("posix-postgresql.md")
        .with("sudo -u postgres psql", &database.administrator().unwrap())
        .with("db.example:5432", &database.address().to_string())
        .with("?sslmode=verify-full", "")
        .follow();
}
