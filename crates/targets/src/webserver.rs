use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use lucarne_testkit::{Launch, Server, TempDir, free_port, temp_dir};

use crate::{Authority, Identity};

/// Time limit of the start.
const START_TIMEOUT: Duration = Duration::from_secs(30);
/// Time limit of the stop.
const STOP_TIMEOUT: Duration = Duration::from_secs(30);

/// Kind of web server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// nginx, with workers and a session cache.
    Nginx,
    /// Apache httpd, with the event module and a session cache.
    Apache,
    /// HAProxy, which terminates TLS and responds itself.
    HaProxy,
}

/// A web server of Debian's packages with TLS 1.2 and 1.3 that responds to `GET /`. Dropping the
/// value stops the server and removes its files.
#[derive(Debug)]
pub struct WebServer {
    /// URL of the target: `https://127.0.0.1:port/`.
    pub url: String,
    /// Listen address.
    pub address: SocketAddr,
    server: Server,
    _files: TempDir,
}

impl WebServer {
    /// Starts the server at `port` (0 for any free port).
    ///
    /// # Errors
    /// If the program is not installed or does not start; the message has the remedy.
    pub fn start(kind: Kind, authority: &Authority, port: u16) -> Result<Self> {
        let address =
            SocketAddr::from(([127, 0, 0, 1], if port == 0 { free_port() } else { port }));
        let files = temp_dir();
        let folder = files.path();
        // Workers run as other users.
        fs::set_permissions(folder, fs::Permissions::from_mode(0o755))?;
        fs::write(
            folder.join("index.html"),
            "<!doctype html><title>fleet</title>\n",
        )?;
        let identity = authority.identity(&format!("{}-{}", kind.program(), address.port()))?;
        let config = folder.join("server.conf");
        fs::write(&config, kind.config(folder, address, &identity))?;
        let launch = Launch::new(kind.path()?)
            .directory(folder)
            .patience(START_TIMEOUT);
        let launch = match kind {
            Kind::Nginx => launch.arg("-p").arg(folder).arg("-c").arg(&config),
            Kind::Apache => launch.arg("-f").arg(&config).arg("-DFOREGROUND"),
            // Runs as one process in the foreground.
            Kind::HaProxy => launch.arg("-db").arg("-f").arg(&config),
        };
        Ok(Self {
            url: format!("https://{address}/"),
            address,
            server: launch.start(address)?,
            _files: files,
        })
    }

    /// Returns the process id.
    pub fn pid(&self) -> u32 {
        self.server.pid()
    }
}

impl Drop for WebServer {
    fn drop(&mut self) {
        // The workers of a killed server would remain.
        let _ = self.server.stop(STOP_TIMEOUT);
    }
}

impl Kind {
    /// Returns the name of the program.
    pub fn program(self) -> &'static str {
        match self {
            Kind::Nginx => "nginx",
            Kind::Apache => "apache2",
            Kind::HaProxy => "haproxy",
        }
    }

    fn path(self) -> Result<std::path::PathBuf> {
        let program = self.program();
        // These folders may be missing in PATH.
        let folders = ["/usr/sbin", "/usr/local/sbin", "/usr/bin", "/usr/local/bin"];
        let paths = folders.map(|folder| Path::new(folder).join(program));
        let found = paths.into_iter().find(|path| path.is_file());
        found.with_context(|| {
            format!(
                "{program} is not installed: run scripts/install-test-tools (or `cargo xtask test`)"
            )
        })
    }

    fn config(self, folder: &Path, address: SocketAddr, identity: &Identity) -> String {
        let template = match self {
            Kind::Nginx => NGINX,
            Kind::Apache => APACHE,
            Kind::HaProxy => HAPROXY,
        };
        template
            .replace("@folder@", &folder.display().to_string())
            .replace("@address@", &address.to_string())
            .replace("@chain@", &identity.chain.display().to_string())
            .replace("@key@", &identity.key.display().to_string())
            .replace("@both@", &identity.both.display().to_string())
    }
}

const NGINX: &str = "\
daemon off;
worker_processes 2;
pid @folder@/nginx.pid;
error_log stderr warn;
events { worker_connections 4096; }
http {
    access_log off;
    client_body_temp_path @folder@/body;
    proxy_temp_path @folder@/proxy;
    fastcgi_temp_path @folder@/fastcgi;
    uwsgi_temp_path @folder@/uwsgi;
    scgi_temp_path @folder@/scgi;
    server {
        listen @address@ ssl http2;
        ssl_certificate @chain@;
        ssl_certificate_key @key@;
        ssl_protocols TLSv1.2 TLSv1.3;
        ssl_session_cache shared:tls:2m;
        ssl_session_timeout 1d;
        root @folder@;
    }
}
";

const APACHE: &str = "\
ServerRoot @folder@
DefaultRuntimeDir @folder@
PidFile @folder@/apache.pid
ErrorLog @folder@/error.log
LogLevel warn
Listen @address@
LoadModule mpm_event_module /usr/lib/apache2/modules/mod_mpm_event.so
LoadModule authz_core_module /usr/lib/apache2/modules/mod_authz_core.so
LoadModule dir_module /usr/lib/apache2/modules/mod_dir.so
LoadModule socache_shmcb_module /usr/lib/apache2/modules/mod_socache_shmcb.so
LoadModule ssl_module /usr/lib/apache2/modules/mod_ssl.so
User www-data
Group www-data
ServerName localhost
StartServers 2
DocumentRoot @folder@
DirectoryIndex index.html
SSLSessionCache shmcb:@folder@/sessions(512000)
<VirtualHost @address@>
    SSLEngine on
    SSLProtocol -all +TLSv1.2 +TLSv1.3
    SSLCertificateFile @chain@
    SSLCertificateKeyFile @key@
</VirtualHost>
";

const HAPROXY: &str = "\
global
    maxconn 4096
    ssl-default-bind-options ssl-min-ver TLSv1.2
defaults
    mode http
    timeout connect 5s
    timeout client 30s
    timeout server 30s
frontend fleet
    bind @address@ ssl crt @both@ alpn h2,http/1.1
    http-request return status 200 content-type text/html string \"<!doctype html><title>fleet</title>\"
";
