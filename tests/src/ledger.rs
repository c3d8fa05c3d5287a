//! The ledger's file as another program finds it: opened directly, without the daemon.

use std::path::Path;

use sqlx::{Connection as _, SqliteConnection};

use crate::http::block_on;

/// Opens the ledger at a path, which must be there.
///
/// # Panics
/// When it can't be opened.
pub async fn open(path: &Path) -> SqliteConnection {
    let url = format!("sqlite://{}?mode=rw", path.display());
    SqliteConnection::connect(&url).await.expect("the ledger opens")
}

/// Returns the content of each entry, and checks that the file is sound.
///
/// # Panics
/// When it is not, or can't be read.
#[must_use]
pub fn contents(path: &Path) -> Vec<String> {
    block_on(async {
        let mut connection = open(path).await;
        let check = sqlx::query_scalar("PRAGMA integrity_check").fetch_one(&mut connection).await;
        let sound: String = check.expect("the ledger is checked");
        assert_eq!(sound, "ok");
        let contents = sqlx::query_scalar("SELECT content FROM entries").fetch_all(&mut connection).await;
        connection.close().await.expect("the ledger closes");
        contents.expect("the ledger is read")
    })
}
