//! `serve --testcert`: TLS for tests, with its own CA.

use std::io;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use lucarne_http::Tls;
use lucarne_mint::store::StoreOptions;
use lucarne_mint::store::{DiskOptions, DiskStore, Host, LayeredStore, MintOptions, Minter};
use lucarne_mint::{CaDirectory, CaOptions, KeyType};

/// Returns a TLS configuration with a certificate for every requested host name. Certificates are
/// minted on first use, and stored in `directory` together with the CA. Prints on standard error
/// how to trust the CA.
///
/// # Errors
/// If the directory can be neither read nor created.
pub(crate) fn open(directory: &Path) -> Result<Arc<Tls>> {
    let ca = CaDirectory::at(directory);
    let (authority, made) = ca
        .open_or_create(&CaOptions::local(KeyType::EcdsaP256)?)
        .context("--testcert: cannot open or create the CA")?;
    let disk = DiskStore::open(&directory.join("certificates"), DiskOptions::default())
        .context("--testcert: cannot open the directory of certificates")?;
    let store = LayeredStore::new(StoreOptions::default(), Arc::new(disk));
    let minter = Minter::new(authority, Arc::new(store), MintOptions::default())?;
    let verb = if made { "created" } else { "found" };
    let place = ca.certificate_file();
    noteln!(
        "{verb} the CA of --testcert, for tests alone: {}\n",
        place.display()
    );
    noteln!("{}", ca.trust_hints());
    let minter = Arc::new(minter);
    Ok(Tls::by_name(move |name| {
        let minter = Arc::clone(&minter);
        async move {
            let host = Host::parse(&name).map_err(io::Error::other)?;
            let minted = minter.certificate(&host).await.map_err(io::Error::other)?;
            Ok(Arc::clone(&minted.server_config))
        }
    }))
}
