import typer

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
def uninstall() -> None: ...
