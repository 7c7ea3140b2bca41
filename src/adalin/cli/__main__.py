from adalin.cli import main

main()
