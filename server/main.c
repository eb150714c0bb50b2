/* The program's entry. */
int main(void)
{
    return 2;
}
